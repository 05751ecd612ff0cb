// oneTBB beside oneTBB, as commands for `comity-lab corun`. lab/bench/oversubscribed-tbb.sh builds it.
//
// The programs are of the same kinds and sizes as `ep:class=S`, `mergesort:class=paper` and `cg:class=W` of
// `comity-lab kernel`, and a smaller `fib`. Each execution is one round, and checks its result.
//
// usage: tbb_corun ep|mergesort|cg|fib     COMITY_NUM_THREADS is the number of threads.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_invoke.h>
#include <tbb/parallel_reduce.h>
#include <tbb/task_arena.h>

using Range = tbb::blocked_range<std::size_t>;

static bool fib_is_right() {
    struct Fib {
        static std::uint64_t of(int n) {
            if (n < 2) return n;
            std::uint64_t a, b;
            tbb::parallel_invoke([&] { a = of(n - 1); }, [&] { b = of(n - 2); });
            return a + b;
        }
    };
    // In oneTBB fib(38) takes 3.5 s, longer than the others together.
    return Fib::of(32) == 2'178'309;
}

// NPB EP: the linear congruential generator modulo 2^46, and the sums of the Gaussian deviates.
namespace ep {
constexpr std::uint64_t multiplier = 1'220'703'125, mask = (std::uint64_t{1} << 46) - 1;
constexpr std::size_t batches = 256, pairs = 65'536;

static std::uint64_t jump(std::uint64_t seed, std::uint64_t steps) {
    for (std::uint64_t power = multiplier; steps != 0; steps >>= 1, power = power * power & mask) {
        if (steps & 1) seed = seed * power & mask;
    }
    return seed;
}

static std::pair<double, double> batch(std::size_t nth) {
    std::uint64_t seed = jump(271'828'183, 2 * pairs * nth);
    const auto draw = [&] { return 2 * std::ldexp(double(seed = seed * multiplier & mask), -46) - 1; };
    double x = 0, y = 0;
    for (std::size_t pair = 0; pair < pairs; ++pair) {
        const double a = draw(), b = draw(), t = a * a + b * b;
        if (t <= 1) {
            const double factor = std::sqrt(-2 * std::log(t) / t);
            x += a * factor;
            y += b * factor;
        }
    }
    return {x, y};
}

static bool is_right() {
    using Sums = std::pair<double, double>;
    const auto add = [](Sums a, Sums b) { return Sums(a.first + b.first, a.second + b.second); };
    const auto part = [&](const Range& range, Sums sums) {
        for (std::size_t nth = range.begin(); nth != range.end(); ++nth) sums = add(sums, batch(nth));
        return sums;
    };
    const auto [x, y] = tbb::parallel_reduce(Range(0, batches, 1), Sums(0, 0), part, add, tbb::simple_partitioner());
    return std::abs(x / -3.247834652034740e3 - 1) < 1e-8 && std::abs(y / -6.958407078382297e3 - 1) < 1e-8;
}
}  // namespace ep

namespace mergesort {
constexpr std::size_t grain = 4096;
using Keys = std::uint64_t*;

static void merge(Keys a, Keys a_end, Keys b, Keys b_end, Keys out) {
    if (a_end - a < b_end - b) {
        std::swap(a, b);
        std::swap(a_end, b_end);
    }
    if (std::size_t(a_end - a + (b_end - b)) <= grain) {
        std::merge(a, a_end, b, b_end, out);
        return;
    }
    const Keys a_middle = a + (a_end - a) / 2, b_middle = std::lower_bound(b, b_end, *a_middle);
    const Keys out_middle = out + (a_middle - a) + (b_middle - b);
    tbb::parallel_invoke([=] { merge(a, a_middle, b, b_middle, out); },
                         [=] { merge(a_middle, a_end, b_middle, b_end, out_middle); });
}

// Sorts the keys into `to` if `moves`, else in place; the other array is scratch.
static void sort(Keys keys, Keys to, std::size_t length, bool moves) {
    if (length <= grain) {
        std::sort(keys, keys + length);
        if (moves) std::copy(keys, keys + length, to);
        return;
    }
    const std::size_t middle = length / 2;
    tbb::parallel_invoke([=] { sort(keys, to, middle, !moves); },
                         [=] { sort(keys + middle, to + middle, length - middle, !moves); });
    const Keys from = moves ? keys : to, into = moves ? to : keys;
    merge(from, from + middle, from + middle, from + length, into);
}

static bool is_right() {
    std::vector<std::uint64_t> keys(4'000'000), scratch(keys.size());
    std::uint64_t state = 1, sum = 0;
    for (auto& key : keys) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        sum += key = state;
    }
    sort(keys.data(), scratch.data(), keys.size(), false);
    for (auto key : keys) sum -= key;
    return sum == 0 && std::is_sorted(keys.begin(), keys.end());
}
}  // namespace mergesort

// Conjugate gradients with the phases of NPB CG class W: 7000 rows of some 73 numbers, 15 times 25 steps. The matrix is
// another: random, symmetric, and dominated by its diagonal.
namespace cg {
constexpr std::size_t rows = 7000, grain = 64, long_grain = 16 * grain;
using Vector = std::vector<double>;

struct Matrix {
    std::vector<std::size_t> starts;
    std::vector<std::pair<std::size_t, double>> entries;
};

static Matrix make() {
    std::vector<std::vector<std::pair<std::size_t, double>>> lines(rows);
    std::uint64_t state = 1;
    for (std::size_t row = 0; row < rows; ++row) {
        lines[row].push_back({row, 40});
        for (int nth = 0; nth < 36; ++nth) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            const std::size_t column = state % rows;
            const double value = double(state >> 40) / (1 << 24) - 0.5;
            lines[row].push_back({column, value});
            lines[column].push_back({row, value});
        }
    }
    Matrix matrix;
    for (const auto& line : lines) {
        matrix.starts.push_back(matrix.entries.size());
        matrix.entries.insert(matrix.entries.end(), line.begin(), line.end());
    }
    matrix.starts.push_back(matrix.entries.size());
    return matrix;
}

static double dot(const Vector& a, const Vector& b) {
    const auto part = [&](const Range& range, double sum) {
        for (std::size_t row = range.begin(); row != range.end(); ++row) sum += a[row] * b[row];
        return sum;
    };
    return tbb::parallel_reduce(Range(0, rows, long_grain), 0.0, part, std::plus<>());
}

// y = a x + b y
static void combine(double a, const Vector& x, double b, Vector& y) {
    tbb::parallel_for(Range(0, rows, long_grain), [&](const Range& range) {
        for (std::size_t row = range.begin(); row != range.end(); ++row) y[row] = a * x[row] + b * y[row];
    });
}

static void multiply(const Matrix& matrix, const Vector& x, Vector& out) {
    tbb::parallel_for(Range(0, rows, grain), [&](const Range& range) {
        for (std::size_t row = range.begin(); row != range.end(); ++row) {
            double sum = 0;
            for (std::size_t at = matrix.starts[row]; at < matrix.starts[row + 1]; ++at) {
                sum += matrix.entries[at].second * x[matrix.entries[at].first];
            }
            out[row] = sum;
        }
    });
}

static bool is_right() {
    const Matrix matrix = make();
    Vector b(rows, 1), z(rows), r(rows), p(rows), q(rows);
    for (int outer = 0; outer < 15; ++outer) {
        std::fill(z.begin(), z.end(), 0);
        r = p = b;
        double rho = dot(r, r);
        for (int step = 0; step < 25; ++step) {
            multiply(matrix, p, q);
            const double alpha = rho / dot(p, q);
            combine(alpha, p, 1, z);
            combine(-alpha, q, 1, r);
            const double next = dot(r, r);
            combine(1, r, next / rho, p);
            rho = next;
        }
    }
    multiply(matrix, z, q);
    combine(-1, b, 1, q);
    return std::sqrt(dot(q, q) / rows) < 1e-6;
}
}  // namespace cg

int main(int count, char** words) {
    const char* number = std::getenv("COMITY_NUM_THREADS");
    const std::string_view program = count == 2 ? words[1] : "";
    bool (*const is_right)() = program == "ep"          ? ep::is_right
                               : program == "mergesort" ? mergesort::is_right
                               : program == "cg"        ? cg::is_right
                               : program == "fib"       ? fib_is_right
                                                        : nullptr;
    const int threads = number ? std::atoi(number) : 0;
    if (!is_right || threads < 1) {
        std::fprintf(stderr, "error: usage: COMITY_NUM_THREADS=N tbb_corun ep|mergesort|cg|fib\n");
        return 2;
    }
    const tbb::global_control most(tbb::global_control::max_allowed_parallelism, threads);
    tbb::task_arena arena(threads);
    if (!arena.execute(is_right)) {
        std::fprintf(stderr, "error: %s: the result is wrong\n", words[1]);
        return 1;
    }
}
