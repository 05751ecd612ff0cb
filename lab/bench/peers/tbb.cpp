// oneTBB: a join is parallel_invoke. lab/bench/peers.sh builds it.
#include <string_view>

#include <tbb/global_control.h>
#include <tbb/parallel_invoke.h>
#include <tbb/task_arena.h>

#include "bench.hpp"

static std::uint64_t fib(int n) {
    if (n < 2) return n;
    std::uint64_t a, b;
    tbb::parallel_invoke([&] { a = fib(n - 1); }, [&] { b = fib(n - 2); });
    return a + b;
}

static std::uint64_t tree(const std::vector<std::uint64_t>& nodes, std::size_t root) {
    if (root >= nodes.size()) return 0;
    std::uint64_t left, right;
    tbb::parallel_invoke([&] { left = tree(nodes, 2 * root + 1); }, [&] { right = tree(nodes, 2 * root + 2); });
    return nodes[root] + left + right;
}

static std::uint64_t loop(std::size_t from, std::size_t to) {
    if (to - from == 1) return cheap(from);
    const std::size_t middle = from + (to - from) / 2;
    std::uint64_t left, right;
    tbb::parallel_invoke([&] { left = loop(from, middle); }, [&] { right = loop(middle, to); });
    return left + right;
}

int main(int count, char** words) {
    read_arguments(count, words);
    // Two threads even where the machine has fewer cores.
    tbb::global_control two(tbb::global_control::max_allowed_parallelism, 2);
    tbb::task_arena one_thread(1), two_threads(2);
    const auto on = [&](int threads, const Body& body) {
        return (threads == 1 ? one_thread : two_threads).execute([&] { return body(); });
    };
    const auto nodes = make_tree();
    compare("oneTBB", "fib", fib_joins(), on, [] { return serially::fib(fib_n); }, [] { return fib(fib_n); });
    compare("oneTBB", "tree", nodes.size(), on, [&] { return serially::tree(nodes, 0); }, [&] { return tree(nodes, 0); });
    compare("oneTBB", "loop", loop_length - 1, on, [] { return serially::loop(0, loop_length); },
            [] { return loop(0, loop_length); });
}
