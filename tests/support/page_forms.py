"""Forms of pages, as a browser would send them."""

import re


def form_of(text: str, action: str) -> dict[str, str]:
    form = re.search(rf'<form[^>]*action="{action}".*?</form>', text, re.DOTALL)
    assert form
    return dict(re.findall(r'name="(\w+)" value="([^"]*)"', form[0]))
