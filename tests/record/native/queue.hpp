// An in-order queue of work on a thread of its own: what a stream is to a GPU.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

class Queue {
  public:
    using Work = std::function<void()>;

    Queue() : worker_([this] { run(); }) {}
    ~Queue() {
        {
            std::lock_guard<std::mutex> held(mutex_);
            stopping_ = true;
            released_ = submitted_;
        }
        changed_.notify_all();
        worker_.join();
    }

    // The number by which to wait for it. Held work is begun only when something waits for it or for later work, when
    // `release` is called, or after the limit.
    uint64_t push(Work work, bool held = false) {
        uint64_t number;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            items_.push_back({std::move(work), held, std::chrono::steady_clock::now() + hold_limit});
            number = ++submitted_;
        }
        changed_.notify_all();
        return number;
    }

    void release() {
        {
            std::lock_guard<std::mutex> held(mutex_);
            released_ = submitted_;
        }
        changed_.notify_all();
    }

    void wait(uint64_t number) {
        std::unique_lock<std::mutex> lock(mutex_);
        if (released_ < number) released_ = number;
        changed_.notify_all();
        changed_.wait(lock, [&] { return done_ >= number; });
    }

    void drain() { wait(last()); }

    uint64_t last() {
        std::lock_guard<std::mutex> held(mutex_);
        return submitted_;
    }

  private:
    static constexpr std::chrono::milliseconds hold_limit{2000};

    struct Item {
        Work work;
        bool held;
        std::chrono::steady_clock::time_point until;
    };

    void run() {
        std::unique_lock<std::mutex> lock(mutex_);
        for (uint64_t number = 1;; number++) {
            changed_.wait(lock, [&] { return stopping_ || !items_.empty(); });
            if (items_.empty()) return;
            Item item = std::move(items_.front());
            items_.pop_front();
            if (item.held) changed_.wait_until(lock, item.until, [&] { return released_ >= number || stopping_; });
            lock.unlock();
            item.work();
            lock.lock();
            done_ = number;
            changed_.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Item> items_;
    uint64_t submitted_ = 0, done_ = 0, released_ = 0;
    bool stopping_ = false;
    std::thread worker_;
};
