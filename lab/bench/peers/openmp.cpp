// OpenMP tasks: a join is a task for one half, a call for the other, and a taskwait. lab/bench/peers.sh builds it.
//
// libgomp leaves a new task until a thread waits, so the task is the right half: all peers visit the left half first.
#include <string_view>

#include "bench.hpp"

static std::uint64_t fib(int n) {
    if (n < 2) return n;
    std::uint64_t a, b;
#pragma omp task shared(b)
    b = fib(n - 2);
    a = fib(n - 1);
#pragma omp taskwait
    return a + b;
}

static std::uint64_t tree(const std::vector<std::uint64_t>& nodes, std::size_t root) {
    if (root >= nodes.size()) return 0;
    std::uint64_t left, right;
#pragma omp task shared(right, nodes)
    right = tree(nodes, 2 * root + 2);
    left = tree(nodes, 2 * root + 1);
#pragma omp taskwait
    return nodes[root] + left + right;
}

static std::uint64_t loop(std::size_t from, std::size_t to) {
    if (to - from == 1) return cheap(from);
    const std::size_t middle = from + (to - from) / 2;
    std::uint64_t left, right;
#pragma omp task shared(right)
    right = loop(middle, to);
    left = loop(from, middle);
#pragma omp taskwait
    return left + right;
}

int main(int count, char** words) {
    read_arguments(count, words);
    const auto on = [](int threads, const Body& body) {
        std::uint64_t result = 0;
#pragma omp parallel num_threads(threads)
#pragma omp single
        result = body();
        return result;
    };
    const auto nodes = make_tree();
    compare("libgomp", "fib", fib_joins(), on, [] { return serially::fib(fib_n); }, [] { return fib(fib_n); });
    compare("libgomp", "tree", nodes.size(), on, [&] { return serially::tree(nodes, 0); }, [&] { return tree(nodes, 0); });
    compare("libgomp", "loop", loop_length - 1, on, [] { return serially::loop(0, loop_length); },
            [] { return loop(0, loop_length); });
}
