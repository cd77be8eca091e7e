"""The language of the e-graph: sorts and constructors, their types and meaning, and the rules that rewrite terms."""
