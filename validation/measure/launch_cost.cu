// SPDX-License-Identifier: Apache-2.0
// What a launch costs the host of this machine: nvcc -O2 launch_cost.cu -o launch_cost && ./launch_cost
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

__global__ void empty() {}

int main() {
    using Clock = std::chrono::steady_clock;
    auto micros = [](Clock::time_point a, Clock::time_point b) { return std::chrono::duration<double, std::micro>(b - a).count(); };
    for (int i = 0; i < 200; ++i) empty<<<1, 32>>>();
    cudaDeviceSynchronize();
    std::vector<double> one, many, sync;
    for (int round = 0; round < 200; ++round) {
        auto start = Clock::now();
        empty<<<1, 32>>>();
        one.push_back(micros(start, Clock::now()));
        cudaDeviceSynchronize();
        start = Clock::now();
        for (int i = 0; i < 200; ++i) empty<<<1, 32>>>();
        many.push_back(micros(start, Clock::now()) / 200);
        cudaDeviceSynchronize();
        start = Clock::now();
        cudaDeviceSynchronize();
        sync.push_back(micros(start, Clock::now()));
    }
    if (cudaGetLastError() != cudaSuccess) return std::printf("{\"error\": \"CUDA\"}\n"), 1;
    auto at = [](std::vector<double>& v, double q) { std::sort(v.begin(), v.end()); return v[size_t(q * (v.size() - 1) + 0.5)]; };
    std::printf("{\"launch_us\": {\"p10\": %.3f, \"median\": %.3f, \"p90\": %.3f}, \"first_launch_us\": {\"median\": %.3f, \"p90\": %.3f}, "
                "\"idle_sync_us\": {\"median\": %.3f}}\n",
                at(many, 0.1), at(many, 0.5), at(many, 0.9), at(one, 0.5), at(one, 0.9), at(sync, 0.5));
}
