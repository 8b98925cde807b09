"""The expression language of rules and playbooks: a part of PromQL with Prometheus' own semantics.

docs/expressions.md says which part.
"""

from __future__ import annotations

from rules.expression.errors import EvaluationError, ExpressionError
from rules.expression.expression import Expression
from rules.expression.parse import AGGREGATIONS, FUNCTIONS, parse

__all__ = ["AGGREGATIONS", "FUNCTIONS", "EvaluationError", "Expression", "ExpressionError", "parse"]
