// An exchange between threads: everybody says where its data lies, takes what is for it from the
// others, and waits until all have done so.
#include "sdk/comm/local.h"

#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>

#include "sdk/base/error.h"
#include "sdk/comm/host_channel.h"

namespace assay {
namespace {

// What the ranks of one channel share.
class Group {
 public:
  Group(int size)
      : size_(size), here_(static_cast<size_t>(size)), sent_(static_cast<size_t>(size)) {}

  int size() const { return size_; }

  void join(int rank) {
    const std::lock_guard lock(mutex_);
    require(!joined_[rank], Code::kInvalid, "rank ", rank, " of this channel is there already");
    joined_[rank] = true;
  }
  // Of a destructor: the others must not wait in vain because there was no memory for the rank's
  // name.
  void leave(int rank) noexcept {
    try {
      end(cat("rank ", rank, " has left the channel"));
    } catch (...) {
      end("a rank has left");  // fits into the string object itself
    }
  }
  void end(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (ended_.empty()) ended_ = why;
    changed_.notify_all();
  }

  void publish(int rank, std::span<const std::span<const std::byte>> sent) {
    sent_[static_cast<size_t>(rank)] = sent;
  }
  std::span<const std::byte> sent(size_t from, int to) const {
    return sent_[from][static_cast<size_t>(to)];
  }

  void require_open() {
    const std::lock_guard lock(mutex_);
    if (!ended_.empty()) fail_ended();
  }

  // What others have published may be read between these: its owner waits for the second before it
  // takes it back. Fails if the channel has ended.
  void begin_reading() {
    const std::lock_guard lock(mutex_);
    if (!ended_.empty()) fail_ended();
    ++readers_;
  }
  void end_reading() {
    const std::lock_guard lock(mutex_);
    --readers_;
    changed_.notify_all();
  }
  // For a rank that gives up: nobody reads what it published when this returns, or ever will.
  void take_back(const std::string& why) {
    end(why);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return readers_ == 0; });
  }

  // Returns when every rank has called it as often as this one.
  void meet(int rank, std::chrono::nanoseconds timeout) {
    std::unique_lock lock(mutex_);
    const int64_t meeting = ++here_[static_cast<size_t>(rank)];
    changed_.notify_all();
    const bool met =
        changed_.wait_for(lock, timeout, [&] { return !ended_.empty() || late(meeting).empty(); });
    if (late(meeting).empty()) return;
    if (!met) {
      const std::string who = ranks_text(late(meeting));
      ended_ = cat(who, late(meeting).size() == 1 ? " has" : " have", " not come within ",
                   std::chrono::duration<double>(timeout).count(), " s");
      changed_.notify_all();
      fail(Code::kTimeout, ended_);
    }
    fail_ended();
  }

 private:
  [[noreturn]] void fail_ended() const {
    fail(Code::kComm, cat("the channel has ended: ", ended_));
  }
  std::vector<int> late(int64_t meeting) const {
    std::vector<int> ranks;
    for (int rank = 0; rank < size_; ++rank) {
      if (here_[static_cast<size_t>(rank)] < meeting) ranks.push_back(rank);
    }
    return ranks;
  }

  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, bool> joined_;
  std::vector<int64_t> here_;  // how many meetings each rank has come to
  std::vector<std::span<const std::span<const std::byte>>>
      sent_;  // by rank, for the exchange under way
  int readers_ = 0;
  std::string ended_;  // why, if it has
};

class LocalChannel : public HostChannel {
 public:
  LocalChannel(std::shared_ptr<Group> group, int rank, std::chrono::nanoseconds timeout)
      : HostChannel(rank, group->size(), timeout), group_(std::move(group)) {
    group_->join(rank);
  }
  ~LocalChannel() override { group_->leave(rank()); }
  LocalChannel(const LocalChannel&) = delete;
  LocalChannel& operator=(const LocalChannel&) = delete;

  void meet() { group_->meet(rank(), timeout()); }
  void listen() override { group_->require_open(); }
  void abort() override { group_->end(cat("rank ", rank(), " has aborted it")); }

 private:
  void exchange(std::span<const Sent> to, std::span<const Received> from) override {
    group_->publish(rank(), to);
    try {
      meet();
      take(from);
      meet();  // the others have taken theirs
    } catch (const Error& error) {
      group_->take_back(error.message());
      throw;
    }
  }

  void take(std::span<const Received> from) {
    struct Reading {
      explicit Reading(Group& of) : group(of) { group.begin_reading(); }
      ~Reading() { group.end_reading(); }
      Reading(const Reading&) = delete;
      Reading& operator=(const Reading&) = delete;
      Group& group;
    } const reading(*group_);
    for (size_t r = 0; r < from.size(); ++r) {
      if (from[r].empty()) continue;
      const Sent theirs = group_->sent(r, rank());
      require(theirs.size() == from[r].size(), Code::kComm, "rank ", r, " sent ", theirs.size(),
              " bytes, and rank ", rank(), " waited for ", from[r].size(),
              ": they make different calls");
      std::memcpy(from[r].data(), theirs.data(), theirs.size());
    }
  }

  std::shared_ptr<Group> group_;
};

// Groups that somebody is in, by name. Never destroyed: channels of static objects may outlive it.
std::shared_ptr<Group> group_named(const std::string& name, int size) {
  static auto& mutex = *new std::mutex;
  static auto& groups = *new std::map<std::string, std::weak_ptr<Group>>;
  const std::lock_guard lock(mutex);
  std::erase_if(groups, [](const auto& entry) { return entry.second.expired(); });
  std::shared_ptr<Group> group = groups[name].lock();
  if (group == nullptr) groups[name] = group = std::make_shared<Group>(size);
  require(group->size() == size, Code::kInvalid, "this channel has ", group->size(), " ranks, not ",
          size);
  return group;
}

}  // namespace

std::unique_ptr<Channel> make_local_channel(const std::string& name, int rank, int size,
                                            std::chrono::nanoseconds timeout) {
  auto channel = std::make_unique<LocalChannel>(group_named(name, size), rank, timeout);
  channel->meet();
  return channel;
}

}  // namespace assay
