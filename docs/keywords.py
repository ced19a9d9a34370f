"""Write the table of keyword arguments of other libraries into its page.

python -m docs.keywords
"""

from pathlib import Path

from tractable.keywords import KEYWORDS, KeywordHint

PAGE = Path(__file__).parent / "keywords.md"
TITLE = "| argument | of | used by | here |"


def row(entry: KeywordHint) -> str:
    """Return one row of the table in Markdown."""
    names = ", ".join(f"`{name}`" for name in entry.names.split())
    owners = ", ".join(f"`{owner}`" for owner in entry.owners.split())
    owners = "all" if entry.owners == "*" else owners
    return f"| {names} | {owners} | {entry.source} | {entry.hint} |"


def table() -> str:
    """Return the table of ``tractable.keywords.KEYWORDS`` in Markdown."""
    return "\n".join([TITLE, "|---|---|---|---|", *map(row, KEYWORDS)])


def main() -> None:
    """Replace the table in the page."""
    text = PAGE.read_text()
    start = text.index(TITLE)
    end = text.index("\n\n", start) if "\n\n" in text[start:] else len(text.rstrip())
    PAGE.write_text(text[:start] + table() + text[end:])


if __name__ == "__main__":
    main()
