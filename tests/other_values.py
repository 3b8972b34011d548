"""Values that are not the default of a field of settings."""


def other_value(row):
    """A value of the field within its bounds, or of its choices."""
    rules, usual = row.rules, row.default
    if row.kind is bool:
        return not usual
    if rules.choices:
        return next(choice for choice in rules.choices if choice != usual)
    if row.kind in (int, float):
        higher = max((usual or 0) + 1, rules.least or 0)
        is_within = rules.most is None or higher <= rules.most
        bounds = (b for b in (rules.least, rules.most) if b != usual)
        return row.kind(higher if is_within else next(bounds))
    if row.kind is tuple:
        return (1.0,) + (0.0,) * (len(usual) - 1)
    return "it's $1, {a b}" if row.kind is str else ("a b", "c,d")
