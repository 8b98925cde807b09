// Runs before the first paint, so that a chosen theme does not flash the other one.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("trimtab-theme");
  } catch {
    chosen = null; // storage is closed to us: the system's theme it is
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
