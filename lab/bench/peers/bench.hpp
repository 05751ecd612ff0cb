// What the peers share: the programs' inputs, the serial elision, timing and printing. lab/bench/peers.sh builds it.
//
// Each peer's file has its own `fib`, `tree` and `loop` in the shape that its users write, and calls `compare` for
// each.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <vector>

inline int fib_n = 38;
inline int rounds = 3;
inline std::size_t loop_length = 10'000'000;
inline std::size_t tree_nodes = (std::size_t{1} << 23) - 1;

inline std::vector<std::uint64_t> make_tree() {
    std::vector<std::uint64_t> nodes(tree_nodes);
    std::iota(nodes.begin(), nodes.end(), 0);
    return nodes;
}

// Some work that no compiler sums up in a formula.
inline std::uint64_t cheap(std::uint64_t item) { return (item ^ (item >> 3)) & 0xffffffff; }

namespace serially {
inline std::uint64_t fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

inline std::uint64_t tree(const std::vector<std::uint64_t>& nodes, std::size_t root) {
    if (root >= nodes.size()) return 0;
    const std::uint64_t left = tree(nodes, 2 * root + 1);
    const std::uint64_t right = tree(nodes, 2 * root + 2);
    return nodes[root] + left + right;
}

// One item per leaf, by halving.
inline std::uint64_t loop(std::size_t from, std::size_t to) {
    if (to - from == 1) return cheap(from);
    const std::size_t middle = from + (to - from) / 2;
    const std::uint64_t left = loop(from, middle);
    const std::uint64_t right = loop(middle, to);
    return left + right;
}
}  // namespace serially

using Body = std::function<std::uint64_t()>;

inline double seconds_of(const Body& body, std::uint64_t expected) {
    const auto start = std::chrono::steady_clock::now();
    const std::uint64_t result = body();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (result != expected) {
        std::fprintf(stderr, "error: a result is wrong: %llu, expected %llu\n", (unsigned long long)result,
                     (unsigned long long)expected);
        std::exit(1);
    }
    return elapsed.count();
}

inline double median(std::vector<double> sample) {
    std::sort(sample.begin(), sample.end());
    const std::size_t middle = sample.size() / 2;
    return sample.size() % 2 ? sample[middle] : (sample[middle - 1] + sample[middle]) / 2;
}

// Runs serial, one thread and two in turns and prints a row. `on(threads, body)` runs the body in a team of threads.
template <typename On>
void compare(const char* peer, const char* program, double joins, const On& on, const Body& serial, const Body& parallel) {
    const std::uint64_t expected = serial();
    std::vector<double> one_thread, two_threads, alone;
    for (int round = 0; round < rounds; ++round) {
        alone.push_back(seconds_of(serial, expected));
        one_thread.push_back(seconds_of([&] { return on(1, parallel); }, expected));
        two_threads.push_back(seconds_of([&] { return on(2, parallel); }, expected));
    }
    const double ts = median(alone), t1 = median(one_thread), t2 = median(two_threads);
    std::printf("| %-7s | %-5s | %8.1f | %8.1f | %8.1f | %7.2f | %7.3f | %7.3f |\n", peer, program, ts * 1e3,
                t1 * 1e9 / joins, t2 * 1e9 / joins, t1 / ts, ts / t1, ts / t2);
    std::fflush(stdout);
}

// `--quick`: small inputs, to see that everything works.
inline void read_arguments(int count, char** words) {
    if (count > 1 && std::string_view(words[1]) == "--quick") {
        fib_n = 20;
        rounds = 1;
        loop_length = 10'000;
        tree_nodes = (std::size_t{1} << 12) - 1;
    }
}

// One less than the leaves of fib's recursion, of which there are fib(n + 1).
inline double fib_joins() { return double(serially::fib(fib_n + 1)) - 1; }
