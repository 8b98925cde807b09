// Building nodes, and carrying a fresh tree over into the one on the page without losing focus or selection.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "style") {
      // Through the object model: the content security policy forbids style attributes.
      for (const [property, setting] of Object.entries(value)) node.style.setProperty(property, setting);
    } else {
      node.setAttribute(name, value === true ? "" : String(value));
    }
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

const keyOf = (node) => node.dataset?.key;

// What a person opened stays open: these belong to the page, not to the data.
const kept = (node, name) => name === "style" || (name === "open" && node.nodeName === "DETAILS");

function morphAttributes(node, next) {
  for (const name of node.getAttributeNames()) {
    if (!next.hasAttribute(name) && !kept(node, name)) node.removeAttribute(name);
  }
  for (const name of next.getAttributeNames()) {
    const value = next.getAttribute(name);
    if (!kept(node, name) && node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  if (node.style.cssText !== next.style.cssText) node.style.cssText = next.style.cssText;
}

function morphNode(node, next) {
  if (node.nodeType !== next.nodeType || node.nodeName !== next.nodeName || keyOf(node) !== keyOf(next)) {
    node.replaceWith(next);
  } else if (node.nodeType === Node.TEXT_NODE) {
    if (node.data !== next.data) node.data = next.data;
  } else {
    morphAttributes(node, next);
    morph(node, [...next.childNodes]);
  }
}

// Make the children of `parent` equal to `nodes`; those with a data-key are found again wherever they moved.
export function morph(parent, nodes) {
  const wanted = nodes.flat(Infinity).filter((node) => node instanceof Node);
  const keyed = new Map([...parent.childNodes].filter(keyOf).map((node) => [keyOf(node), node]));
  wanted.forEach((next, index) => {
    const known = keyed.get(keyOf(next));
    if (known && parent.childNodes[index] !== known) parent.insertBefore(known, parent.childNodes[index] ?? null);
    const here = parent.childNodes[index];
    if (here) morphNode(here, next);
    else parent.append(next);
  });
  while (parent.childNodes.length > wanted.length) parent.lastChild.remove();
}

export const $ = (id) => document.getElementById(id);
