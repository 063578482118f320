"""Size distributions: exact means, the samplers, byte weights, and what is refused."""

import numpy as np
import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from penstock_net.errors import SpecError
from penstock_net.workload.distributions import SizeDistribution, catalogue, names

# Means of the linear and of the step sampler and p50, p90, p99, computed apart from this code (trapezoids and sums).
TABLE = {
    "google": (2907.0, 2944.1, 257, 1716, 30614),
    "facebook_hadoop": (121849.2, 127796.9, 655, 119336, 3094208),
    "websearch": (1711250.0, 2434900.0, 73077, 5000000, 23333333),
    "hpcc_fb_hadoop": (120420.8, 183897.0, 700, 120000, 2000000),
    "google_rpc_2008": (2891.6, 2929.0, 257, 1716, 30614),
    "alistorage": (40869.8, 67050.0, 6340, 31237, 1293927),
    "memcached": (180.57, 182.34, 27, 500, 1853),
    "web_server": (62228.8, 62874.3, 3406, 268075, 552298),
    "homa_w2": (423.4, 440.8, 267, 501, 2989),
    "homa_w5": (2510778.5, 2547267.9, 70642, 4866180, 27253431),
    "data_mining": (7470236.0, 13821966.0, 1460, 389820, 97333820),
}


def rng(seed=7):
    return np.random.Generator(np.random.Philox(seed))


def write(tmp_path, text):
    path = tmp_path / "my.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refused(tmp_path, text):
    with pytest.raises(SpecError) as error:
        SizeDistribution.load(write(tmp_path, text))
    return str(error.value)


@pytest.mark.parametrize("name", TABLE)
def test_means_and_percentiles_are_the_known_ones(name):
    about = SizeDistribution.load(name).describe()
    linear, step, *percentiles = TABLE[name]
    assert about["mean_bytes"] == pytest.approx(linear, rel=2e-4)
    assert about["mean_step_bytes"] == pytest.approx(step, rel=2e-4)
    assert [about[p] for p in ("p50_bytes", "p90_bytes", "p99_bytes")] == pytest.approx(percentiles, rel=1e-3)


def test_every_bundled_distribution_says_what_it_stands_for():
    known = catalogue()
    assert [entry["name"] for entry in known] == names()
    assert len(known) == 24
    for entry in known:
        assert entry["paper"], entry["name"]
        assert entry["origin"], entry["name"]
        assert 1 <= entry["min_bytes"] <= entry["p50_bytes"] <= entry["p90_bytes"] <= entry["max_bytes"]


@pytest.mark.parametrize("name", names())
def test_samples_follow_the_cdf_of_the_file(name):
    dist = SizeDistribution.load(name)
    sample = dist.sample(rng(), 20_000)
    assert sample.dtype == np.int64
    assert sample.min() >= 1
    at = np.unique(np.concatenate([dist.bytes, sample[:2000]]))
    empirical = np.searchsorted(np.sort(sample), at, side="right") / len(sample)
    distance = np.abs(empirical - dist.cdf(at)).max()
    assert distance < stats.kstwobign.ppf(1 - 1e-4) / np.sqrt(len(sample))
    linear = np.interp(at, dist.bytes, dist.cdf_points)  # cdf() against the file; rounding moves half a byte
    steep = np.abs(np.interp(at + 0.5, dist.bytes, dist.cdf_points) - linear)
    assert np.all(np.abs(dist.cdf(at) - linear) <= steep + 1e-9)


@pytest.mark.parametrize("options", [{}, {"round_up": 1000}, {"interpolate": False}, {"interpolate": False, "round_up": 7}])
def test_mean_and_weights_are_exactly_those_of_the_sampler(options):
    """Against the sampler itself, on a fine grid of u: a midpoint sum over 2 million quantiles."""
    dist = SizeDistribution("d", [0, 3, 3, 1500, 4000], [0, 0.1, 0.2, 0.7, 1], **options)
    sizes = dist.quantile((np.arange(2_000_000) + 0.5) / 2_000_000)
    assert dist.mean() == pytest.approx(sizes.mean(), rel=1e-6)
    at = [0, 1, 2, 3, 4, 7, 999, 1000, 1001, 1500, 1505, 2000, 3999, 4000, 5000]
    assert dist.cdf(at) == pytest.approx([np.mean(sizes <= size) for size in at], abs=2e-6)
    weighted = [sizes[sizes <= size].sum() / sizes.sum() for size in at]
    assert dist.byte_weighted_cdf(at) == pytest.approx(weighted, abs=2e-6)


@given(
    st.lists(st.tuples(st.integers(0, 5000), st.floats(0, 1)), min_size=1, max_size=8),
    st.booleans(),
    st.sampled_from([None, 1, 10, 1000]),
)
@examples(100)
def test_mean_is_that_of_the_sampler_whatever_the_points(points, interpolate, round_up):
    sizes = sorted(size + 1 for size, _ in points)
    cdf = [*sorted(p for _, p in points)[:-1], 1.0]
    dist = SizeDistribution("any", sizes, cdf, interpolate=interpolate, round_up=round_up)
    drawn = dist.quantile((np.arange(100_000) + 0.5) / 100_000)
    assert dist.mean() == pytest.approx(drawn.mean(), rel=1e-3, abs=1.1e-5 * len(sizes) * (sizes[-1] + (round_up or 0)))
    assert dist.byte_weighted_cdf(10_000) == pytest.approx(1)


def test_steps_draw_only_tabulated_sizes():
    dist = SizeDistribution.load("homa_w3", interpolate=False)
    assert np.isin(dist.sample(rng(), 5000), dist.bytes).all()
    assert dist.quantile([0.0, 0.06, 1.0]).tolist() == [3, 3, 15158197]


def test_round_up_makes_whole_packets_above_the_limit():
    sizes = SizeDistribution.load("google", round_up=1000).sample(rng(), 20_000)
    assert np.all(sizes[sizes > 1000] % 1000 == 0)
    assert np.any(sizes[sizes < 1000] % 1000 != 0)


def test_byte_weighted_cdf_of_google_as_in_the_bfc_paper():
    """Flows shorter than 100 KB carry "nearly half of all bytes" (BFC, NSDI 2022, section 2); exactly 42 % of them."""
    google = SizeDistribution.load("google")
    assert google.byte_weighted_cdf(100_000) == pytest.approx(0.424, abs=0.002)
    assert google.byte_weighted_cdf([0, 20_000_000]).tolist() == [0, 1]


def test_a_file_of_ones_own(tmp_path):
    dist = SizeDistribution.load(write(tmp_path, "# paper: mine\n\nbytes,cdf\n# half\n1000, 0.5\n2000,1\n"))
    assert (dist.paper, dist.mean()) == ("mine", 0.5 * 1000 + 0.5 * 1500)
    windows = SizeDistribution.load(write(tmp_path, "\ufeffbytes,cdf\r\n1e3,1\r\n"))
    assert windows.sample(rng(), 3).tolist() == [1000] * 3
    assert SizeDistribution.load(dist) is dist


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("bytes,cdf\n100,0\n200,abc\n", 3, "is not a number"),
        ("bytes,cdf\n100,0\n200,\n", 3, "empty"),
        ("bytes,cdf\n100,0\n200\n", 3, "truncated"),
        ("bytes,cdf\n100,0\n200,0.5,9\n", 3, "3 columns"),
        ("bytes,cdf\n200,0\n100,1\n", 3, "must not decrease"),
        ("bytes,cdf\n100,0.5\n200,0.4\n", 3, "must not decrease"),
        ("bytes,cdf\n100,0\n200,0.9\n", 3, "must be 1"),
        ("bytes,cdf\n100,0\n200,100\n", 3, "per cent"),
        ("bytes,cdf\n-5,0\n200,1\n", 2, "between 0"),
        ("bytes,cdf\n0,0.5\n200,1\n", 2, "no flow has 0 bytes"),
        ("bytes,cdf\n0,1\n", 2, "no flow has 0 bytes"),
        ("bytes,cdf\n1.5,0\n200,1\n", 2, "whole number, such as 2"),
        ("bytes,cdf\ninf,0\n", 2, "finite"),
        ("bytes,cdf\n10,nan\n", 2, "finite"),
        ("bytes,cdf\n1e99,1\n", 2, "between 0 and"),
        ("bytes,cdf\n1_000,1\n", 2, "is not a number"),
        ("size,cdf\n10,1\n", 1, '"bytes,cdf"'),
        ("10,0.5\n20,1\n", 1, "header line is missing"),
        ('bytes,cdf\n"10,1\n', 2, "not CSV"),
        (b"bytes,cdf\n10,1\n\xff\n", 3, "UTF-8"),
    ],
)
def test_malformed_files_are_refused_with_the_line(tmp_path, text, line, says):
    message = refused(tmp_path, text)
    assert f"my.csv:{line}:" in message
    assert says in message
    assert "\n" not in message


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "bytes,cdf\n"])
def test_empty_files_are_refused(tmp_path, text):
    message = refused(tmp_path, text)
    assert "my.csv" in message
    assert "bytes,cdf" in message


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("gogle", 'did you mean "google"?'),
        ("nowhere.csv", "cannot be read"),
        ("no\0such.csv", "cannot be read"),
        ("", "no such distribution"),
        (5, "must be a name"),
        ("/tmp", "cannot be read"),
    ],
)
def test_unknown_sources_are_refused(source, says):
    with pytest.raises(SpecError, match=says.replace("?", r"\?")):
        SizeDistribution.load(source)


def test_a_file_of_sizes_may_have_any_suffix(tmp_path):
    path = tmp_path / "sizes.txt"
    path.write_text("bytes,cdf\n10,1\n")
    assert SizeDistribution.load(str(path)).mean() == 10


def test_bad_options_are_refused():
    with pytest.raises(SpecError, match="round_up = 0: must be between"):
        SizeDistribution.load("google", round_up=0)
    with pytest.raises(SpecError, match='interpolate = "no": must be true or false'):
        SizeDistribution.load("google", interpolate="no")
    with pytest.raises(SpecError, match="2 sizes but 1 cdf"):
        SizeDistribution("d", [1, 2], [1.0])


@given(
    st.one_of(
        st.binary(max_size=200),
        st.text('0123456789.,-+eEinfa#"\n\r bytescdf', max_size=200).map(lambda text: ("bytes,cdf\n" + text).encode()),
    )
)
@examples(400)
def test_arbitrary_bytes_give_a_distribution_or_a_spec_error(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "fuzz.csv"
    path.write_bytes(content)
    try:
        dist = SizeDistribution.load(path)
    except SpecError as error:
        assert "fuzz.csv" in str(error)
    else:
        assert dist.sample(rng(), 5).min() >= 1
        assert dist.mean() >= 1
