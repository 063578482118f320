"""How figures look, besides what they show: width, caption, fonts, the order of curves, their colours."""

from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from penstock_net.errors import SpecError
from penstock_net.inputs import one_of, real
from penstock_net.palette import COLUMN, PAGE, RC

WIDTHS = {"column": COLUMN, "page": PAGE}
SIZES = ("font.size", "axes.titlesize", "axes.labelsize", "legend.fontsize", "xtick.labelsize", "ytick.labelsize")
Made = TypeVar("Made")


@dataclass(frozen=True)
class style:
    """The look of the figures that are made within it: `with ps.plot.style(width="page", caption=False): ps.plot.slowdown(run)`.

    width      "column" or "page" of a paper with two columns: 3.4 or 7 inches
    caption    the small grey text below: True, what the figure is of; False, none; a text of your own
    font       a family that matplotlib finds, such as "Times New Roman" or "serif"; None: a sans-serif one
    font_size  of labels, points; the other texts follow
    order      of a sweep: schemes, those that come first; the others follow. Runs are drawn in the order in which they are given
    colours    colours by label of a run or scheme: {"bfc": "black", "hpcc": "#D55E00"}
    SpecError: no such width, a bad size or colour.
    """

    width: Literal["column", "page"] = "column"
    caption: bool | str = True
    font: str | None = None
    font_size: float | None = None
    order: Sequence[str] = ()
    colours: Mapping[str, str] = field(default_factory=dict)
    _tokens: list[Token["style"]] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        from matplotlib.colors import is_color_like

        one_of(self.width, "width", WIDTHS)
        if self.font_size is not None:
            real(self.font_size, "font_size", 4, 24)
        for label, colour in self.colours.items():
            if not is_color_like(colour):
                raise SpecError("is no colour", path=f"colours.{label}", value=colour, remedy='such as "black" or "#0072B2"')

    def __enter__(self) -> "style":
        self._tokens.append(_CURRENT.set(self))
        return self

    def __exit__(self, *_: object) -> None:
        _CURRENT.reset(self._tokens.pop())

    @property
    def inches(self) -> float:
        """The width of a figure."""
        return WIDTHS[self.width]

    @property
    def rc(self) -> Any:
        """matplotlib's parameters, by name."""
        found = dict(RC)
        if self.font is not None:
            found["font.family"] = [self.font, RC["font.family"]]
        if self.font_size is not None:
            found |= {name: RC[name] * self.font_size / RC["axes.labelsize"] for name in SIZES}
        return found

    @property
    def scale(self) -> float:
        """The size of fonts as a multiple of the usual one."""
        return 1.0 if self.font_size is None else self.font_size / float(RC["axes.labelsize"])

    def text(self, caption: str) -> str:
        """The caption of a figure that would have this one."""
        return self.caption if isinstance(self.caption, str) else caption * self.caption

    def sorted(self, made: Iterable[Made], label: Any = str) -> list[Made]:
        """What has labels in the order that was asked for.  SpecError: nothing has one of these labels."""
        found = list(made)
        labels = [label(each) for each in found]
        for name in self.order:
            if name not in labels:
                known = ", ".join(dict.fromkeys(labels))
                raise SpecError("no curve has this label", path="order", value=name, remedy=f"known: {known}")
        place = {name: at for at, name in enumerate(self.order)}
        return sorted(found, key=lambda each: place.get(label(each), len(place)))


_CURRENT: ContextVar[style] = ContextVar("style")


def current() -> style:
    """The style that figures have now."""
    return _CURRENT.get(style())
