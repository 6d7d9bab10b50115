"""Names of topics and groups that would break what shows them unescaped."""

NAMES = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "<svg/onload=alert(1)>",
    "javascript:alert(1)",
    "</title><h1>mine</h1>",
    "<!--",
    "{{7*7}}${7*7}#{7*7}<%=7*7%>",
    "{% for x in y %}",
    "'; DROP TABLE groups; --",
    "a/b?c=d&e=f#g",
    "../../etc/passwd",
    "%2e%2e%2f%00",
    "=HYPERLINK(1)",
    "*bold* _it_ [x](http://evil.example) <!channel> @all",
    "new\nline\r\tTIDEMARK_X=1",
    'lag{x="y"} 1\n# TYPE evil gauge',
    "\x1b[31mred\x1b]0;title\x07",
    "\u202egnorw\u2066",
    "zero\u200bwidth\ufeff",
    "\u6d88\u8d39\u7ec4-\U0001f600",
    "\\N{BULLET} \\x41 \\u0041",
    "x" * 255,
)
"""Hostile names of a group, a topic, a client or a rule."""
