// SPDX-License-Identifier: Apache-2.0
// What a trace becomes: tables, exact times, indices; and what is made of files that are not quite in order.
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "sim/trace/summary.hpp"
#include "sim/trace/trace.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/trace_text.hpp"

using namespace gpusim;
using gpusim::test::call;
using gpusim::test::ContainsSubstring;
using gpusim::test::gpu_op;
using gpusim::test::kernel;
using gpusim::test::span;
using gpusim::test::trace_text;

namespace {

using Repairs = std::vector<std::string>;

std::string data_file(const std::string& name) {
  return std::string(GPUSIM_SOURCE_DIR) + "/tests/data/traces/" + name;
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string gzip(const std::string& text) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, static_cast<uLong>(text.size())), '\0');
  std::string input = text;
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TraceError error_of(const std::string& bytes, const TraceLimits& limits = {}) {
  try {
    read_trace_bytes(bytes, "run.json", limits);
  } catch (const TraceError& error) {
    return error;
  }
  FAIL("no error for: " << bytes.substr(0, 200));
  throw std::logic_error("not reached");
}

/// One kernel called `name` as written here, with a path in its args.
std::string one(const std::string& name) {
  return R"({"traceEvents": [{"ph":"X","cat":"kernel","name":")" + name +
         R"(","ts":1,"dur":2,"pid":0,"tid":7,"args":{"path":"C:\\new"}}]})";
}

}  // namespace

TEST_CASE("a trace file becomes tables") {
  const Trace trace = read_trace(data_file("two_steps.json"));
  CHECK(trace.events == 26);
  CHECK(trace.repairs.empty());
  CHECK(trace.invalid_events == 0);
  CHECK(trace.dropped_spans == 0);
  // The earliest event kept is the first step.
  CHECK(trace.base.microseconds == 5141504813700);
  CHECK(trace.base.picoseconds == 250'000);

  REQUIRE(trace.ops.size() == 6);
  const TraceOp& op = trace.ops[0];
  CHECK(trace.names[op.name] == "nvjet_sm90_tst_64x8_64x16_2x1_v_bz_TNT");
  CHECK(op.kind == TraceOpKind::Kernel);
  CHECK(op.start == Picoseconds(20'751'000));
  CHECK(op.duration() == Picoseconds(31'104'000));
  CHECK(op.correlation == 21);
  CHECK(op.blocks() == 264);
  CHECK(op.threads() == 384);
  CHECK(op.registers == 168);
  CHECK(op.shared_memory == 214016);
  CHECK(trace.streams[op.stream].device == "0");
  CHECK(trace.streams[op.stream].name == "7");
  CHECK_FALSE(op.graph.has_value());

  const auto copy = std::find_if(trace.ops.begin(), trace.ops.end(),
                                 [](const TraceOp& o) { return o.kind == TraceOpKind::Memcpy; });
  REQUIRE(copy != trace.ops.end());
  CHECK(copy->bytes == 4096);
  CHECK(trace.streams[copy->stream].name == "20");

  const auto node =
      std::find_if(trace.ops.begin(), trace.ops.end(), [](const TraceOp& o) { return o.graph; });
  REQUIRE(node != trace.ops.end());
  CHECK(node->graph == 3);
  CHECK(node->graph_node == 12);

  REQUIRE(trace.calls.size() == 8);
  CHECK(trace.calls[0].kind == TraceCallKind::KernelLaunch);
  CHECK(trace.calls[0].start == Picoseconds(11'000'000));
  CHECK_FALSE(trace.calls[0].driver);
  CHECK(trace.calls[1].driver);
  CHECK(trace.calls[2].kind == TraceCallKind::EventRecord);
  CHECK(trace.calls[3].kind == TraceCallKind::StreamWaitEvent);
  CHECK(trace.calls[4].kind == TraceCallKind::MemcpyCall);
  CHECK(trace.calls[5].kind == TraceCallKind::SynchronizeStream);
  CHECK(trace.calls[6].kind == TraceCallKind::GraphLaunch);
  CHECK(trace.calls[7].kind == TraceCallKind::SynchronizeDevice);

  REQUIRE(trace.threads.size() == 2);
  CHECK(trace.threads[0].thread == "414");
  CHECK(trace.threads[0].name == "thread 414 (python3)");
  CHECK(trace.threads[1].name == "thread 500 (pt_autograd_0)");

  REQUIRE(trace.steps.size() == 2);
  CHECK(trace.steps[0].number == 1);
  CHECK(trace.steps[1].number == 2);
  CHECK(trace.steps[0].start == Picoseconds(0));
  REQUIRE(trace.annotations.size() == 1);

  REQUIRE(trace.cpu_ops.size() == 3);
  CHECK(trace.names[trace.cpu_ops[0].name] == "aten::linear");
  CHECK(trace.cpu_ops[0].depth == 0);
  CHECK(trace.cpu_ops[1].depth == 1);
  CHECK(trace.cpu_ops[2].depth == 0);

  REQUIRE(trace.syncs.size() == 2);
  CHECK(trace.syncs[0].kind == TraceSyncKind::StreamWaitEvent);
  CHECK(trace.streams[trace.syncs[0].stream].name == "20");
  CHECK(trace.streams[trace.syncs[0].wait_on_stream].name == "7");
  CHECK(trace.syncs[0].event == 9);
  CHECK(trace.syncs[0].record_correlation == 23);
  CHECK(trace.syncs[0].correlation == 24);
  CHECK(trace.syncs[1].kind == TraceSyncKind::Context);
  CHECK(trace.syncs[1].stream == trace_none);

  REQUIRE(trace.device_properties.size() == 1);
  CHECK(trace.device_properties[0].name == "NVIDIA H200");
  CHECK(trace.device_properties[0].sms == 132);
  CHECK(trace.device_properties[0].memory_bytes == 150109880320);
}

TEST_CASE("gzip data are told by content, and a trace reads the same packed") {
  const std::string text = bytes_of(data_file("two_steps.json"));
  REQUIRE_FALSE(text.empty());
  const std::string plain = summary_csv_row(summarize(read_trace_bytes(text)));
  CHECK(summary_csv_row(summarize(read_trace_bytes(gzip(text)))) == plain);
  // Several members, as `cat a.gz b.gz` makes them, and zero bytes behind them.
  const std::string halves = gzip(text.substr(0, 1000)) + gzip(text.substr(1000)) + std::string(5, '\0');
  CHECK(summary_csv_row(summarize(read_trace_bytes(halves))) == plain);
}

TEST_CASE("keys may come in any order, also the device properties after the events") {
  const Trace trace = read_trace_bytes(
      R"({"traceEvents":[{"args":{"stream":9,"device":1,"correlation":5,"grid":[2,3,4]},"dur":"2","ts":7,"tid":1,)"
      R"("pid":1,"name":"k","cat":"kernel","ph":"X"}],"deviceProperties":[{"numSms":108,"name":"A","id":1}]})");
  REQUIRE(trace.ops.size() == 1);
  CHECK(trace.ops[0].blocks() == 24);
  CHECK(trace.streams[0].name == "9");
  CHECK(trace.device_properties.at(0).sms == 108);
}

TEST_CASE("a list of events is a trace") {
  const Trace trace = read_trace_bytes("[" + kernel("1", "2") + ", 5, null, \"x\", [1]]");
  CHECK(trace.ops.size() == 1);
  CHECK(trace.events == 5);
}

TEST_CASE("of two keys of one name the last one counts") {
  const Trace trace = read_trace_bytes(R"({"traceEvents":[)" + kernel("1", "1") + "," + kernel("3", "1") +
                                       R"(],"traceEvents":[)" + kernel("9", "1") + "]}");
  CHECK(trace.events == 1);
  CHECK(trace.ops.size() == 1);
  CHECK(trace.base.microseconds == 9);
}

TEST_CASE("a name with escapes is the text it stands for") {
  const Trace trace = read_trace_bytes(one(R"(a\"b\\c\/d\n\u00e4\u20ac\ud83d\ude00\ud800x)"));
  CHECK(trace.repairs.empty());
  REQUIRE(trace.ops.size() == 1);
  CHECK(trace.names[trace.ops[0].name] == "a\"b\\c/d\n\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xef\xbf\xbdx");
  const Trace escaped_key =
      read_trace_bytes(R"([{"p\u0068":"X","cat":"kernel","name":"\u006b","ts":1,"dur":2,"args":{}}])");
  CHECK(escaped_key.ops.size() == 1);
}

TEST_CASE("spans far from the rest are dropped, GPU ops far apart are an error") {
  const Trace trace =
      read_trace_bytes(trace_text({span("cpu_op", "stray", "0", "1"), kernel("1712195495505583", "1"),
                                   span("cpu_op", "aten::mm", "1712195495505580", "1")}));
  CHECK(trace.dropped_spans == 1);
  CHECK(trace.cpu_ops.size() == 1);
  CHECK(trace.base.microseconds == 1712195495505583);
  CHECK(trace.cpu_ops[0].start == Picoseconds(-3'000'000));
  const TraceError error = error_of(trace_text({kernel("0", "1"), kernel("1712195495505583", "1")}));
  CHECK_THAT(error.what(), ContainsSubstring("53 days"));
  CHECK(error.place().line == 2);
}

TEST_CASE("nested host spans know their depth on their own thread") {
  const Trace trace = read_trace_bytes(
      trace_text({span("cpu_op", "inner", "2", "3"), span("cpu_op", "outer", "0", "10"),
                  span("cpu_op", "innermost", "3", "1"), span("cpu_op", "next", "10", "5"),
                  span("cpu_op", "elsewhere", "1", "2", 101), span("cpu_op", "equal", "2", "3"),
                  span("cpu_op", "crossing", "14", "9")}));
  std::vector<std::uint32_t> depths;
  for (const TraceSpan& each : trace.cpu_ops) depths.push_back(each.depth);
  CHECK(depths == std::vector<std::uint32_t>{1, 0, 3, 0, 0, 2, 0});
}

TEST_CASE("a byte order mark is no damage") {
  const Trace trace = read_trace_bytes("\xef\xbb\xbf" + one("k"));
  CHECK(trace.ops.size() == 1);
  CHECK(trace.repairs.empty());
}

TEST_CASE("backslashes that start no escape are taken as they stand") {
  const Trace trace = read_trace_bytes(one(R"(f<\lambda>)"));
  CHECK(trace.repairs == Repairs{"unescaped backslash"});
  REQUIRE(trace.ops.size() == 1);
  CHECK(trace.names[trace.ops[0].name] == R"(f<\lambda>)");
  // Also where nobody looks, and with a valid pair before it.
  CHECK(read_trace_bytes(R"({"note":"a\\\q","traceEvents":[]})").repairs == Repairs{"unescaped backslash"});
  CHECK(read_trace_bytes(R"({"note":"\u12x4","traceEvents":[]})").repairs == Repairs{"unescaped backslash"});
}

TEST_CASE("raw control characters in strings are kept") {
  const Trace trace = read_trace_bytes(one("a\tb\x01"));
  CHECK(trace.repairs == Repairs{"control character"});
  REQUIRE(trace.ops.size() == 1);
  CHECK(trace.names[trace.ops[0].name] == "a\tb\x01");
}

TEST_CASE("bytes that are no UTF-8 are replaced, one mark for each maximal piece") {
  Trace trace =
      read_trace_bytes(one("a\xff"
                           "b\xe2\x82"
                           "c\xed\xa0\x80"));
  CHECK(trace.repairs == Repairs{"invalid utf-8"});
  REQUIRE(trace.ops.size() == 1);
  const std::string mark = "\xef\xbf\xbd";
  CHECK(trace.names[trace.ops[0].name] == "a" + mark + "b" + mark + "c" + mark + mark + mark);
  trace = read_trace_bytes(one("a\xff\t"));
  CHECK(trace.repairs == Repairs{"invalid utf-8", "control character"});
  trace = read_trace_bytes(one("a\xff\\q\t"));
  CHECK(trace.repairs == Repairs{"invalid utf-8", "unescaped backslash"});
}

TEST_CASE("of a file that is cut off the whole events are kept") {
  const std::string event = R"({"ph":"X","cat":"kernel","name":"k","ts":1,"dur":2})";
  Trace trace = read_trace_bytes(R"({"traceEvents": [)" + event + ",\n" +
                                 R"({"ph":"X","cat":"kernel","name":"k","ts":9,"du)");
  CHECK(trace.repairs == Repairs{"truncated"});
  CHECK(trace.ops.size() == 1);
  trace = read_trace_bytes("[" + event + "," + event.substr(0, 20));
  CHECK(trace.repairs == Repairs{"truncated"});
  CHECK(trace.ops.size() == 1);
  // What stood before the events is not lost.
  trace = read_trace_bytes(R"({"deviceProperties":[{"id":0,"name":"GPU"}],"traceEvents":[)" + event + ",");
  CHECK(trace.ops.size() == 1);
  CHECK(trace.device_properties.size() == 1);
  // Unless it is what is broken.
  trace = read_trace_bytes(R"({"a":,"traceEvents":[)" + event + "]}");
  CHECK(trace.repairs == Repairs{"truncated"});
  CHECK(trace.ops.size() == 1);
}

TEST_CASE("stray and missing commas between events cost no event") {
  const std::string event = R"({"ph":"X","cat":"kernel","name":"k","ts":1,"dur":2})";
  for (const std::string& text : {"[" + event + "," + event + ",]", "[" + event + ",," + event + "]",
                                  "[" + event + event + "]", "[" + event + "," + event + "] tail"}) {
    INFO(text);
    const Trace trace = read_trace_bytes(text);
    CHECK(trace.ops.size() == 2);
    CHECK(trace.repairs == Repairs{"truncated"});
  }
}

TEST_CASE("text that only looks like JSON where nobody needs it is still damaged") {
  const std::string event = R"({"ph":"X","cat":"kernel","name":"k","ts":1,"dur":2,"args":{)";
  for (const char* args : {R"("a":tru)", R"("a" 1)", R"("a":01)", R"("a":1.)", R"("a":[1 2])",
                           R"("a":"b" "c")", R"("a":{"b":1],"c":2)", R"("a":nul)", R"("a":-)", R"("a":'b')",
                           R"("a":1,)", R"(a:1)", R"("a":["b":1])"}) {
    const std::string text = "[" + event + R"("x":1}},)" + event + args + "}}]";
    INFO(text);
    const Trace trace = read_trace_bytes(text);
    CHECK(trace.ops.size() == 1);
    CHECK(trace.repairs == Repairs{"truncated"});
  }
}

TEST_CASE("NaN and infinities are let through") {
  const Trace trace = read_trace_bytes(
      R"([{"ph":"X","cat":"kernel","name":"k","ts":1,"dur":2,"args":{"a":NaN,"b":[-Infinity,Infinity],"bytes":NaN}}])");
  CHECK(trace.ops.size() == 1);
  CHECK(trace.repairs.empty());
}

TEST_CASE("what is no trace is refused with the place") {
  TraceError error = error_of("not a trace");
  CHECK(error.byte_offset() == 0);
  CHECK_THAT(error.what(), ContainsSubstring("run.json:1:1: error: not a trace"));
  error = error_of("{\n  \"a\": 1,\n  \"b\" 2\n}");
  CHECK(error.byte_offset() == 18);
  CHECK(error.place().line == 3);
  CHECK(error.place().column == 7);
  CHECK_THAT(error.message(), ContainsSubstring("':' was expected"));
  for (const char* text :
       {"", "   ", "5", "\"text\"", "null", "true", "{\"traceEvents\":", "{", "\xef\xbb\xbf", "NaN"}) {
    INFO(text);
    CHECK_THAT(error_of(text).what(), ContainsSubstring("not a trace"));
  }
}

TEST_CASE("damaged gzip data are refused with the place") {
  const std::string packed = gzip(bytes_of(data_file("two_steps.json")));
  TraceError error = error_of(packed.substr(0, packed.size() / 2));
  CHECK_THAT(error.what(), ContainsSubstring("cut off"));
  CHECK(error.byte_offset() == packed.size() / 2);
  std::string damaged = packed;
  damaged[damaged.size() - 6] ^= 1;  // the check sum
  CHECK_THAT(error_of(damaged).what(), ContainsSubstring("gzip data"));
  CHECK_THAT(error_of(packed + "tail").what(), ContainsSubstring("gzip data"));
}

TEST_CASE("a limit that is passed is named") {
  TraceLimits limits;
  limits.file_bytes = 100;
  CHECK_THAT(error_of(std::string(101, ' '), limits).what(), ContainsSubstring("trace_file_bytes = 100"));
  limits = {};
  limits.expanded_bytes = 10'000;
  CHECK_THAT(error_of(gzip("[" + std::string(20'000, ' ') + "]"), limits).what(),
             ContainsSubstring("trace_text_bytes = 10000"));
  CHECK(read_trace_bytes(gzip("[" + std::string(9'998, ' ') + "]"), "x", limits).events == 0);
  std::string bomb;
  const std::string member = gzip(std::string(std::size_t{1} << 20, ' '));
  for (int i = 0; i < 65; ++i) bomb += member;
  CHECK_THAT(error_of(bomb).what(), ContainsSubstring("trace_expansion_max = 300"));
  limits = {};
  limits.depth = 20;
  const std::string deep = std::string(30, '[') + std::string(30, ']');
  CHECK_THAT(error_of("{\"a\":" + deep + "}", limits).what(), ContainsSubstring("trace_depth = 20"));
  CHECK_THAT(error_of("[{\"args\":{\"a\":" + deep + "}}]", limits).what(), ContainsSubstring("trace_depth"));
  CHECK_NOTHROW(read_trace_bytes("{\"a\":" + deep + "}"));
}

TEST_CASE("a nesting bomb neither crashes nor takes long") {
  const std::size_t levels = 1'000'000;
  const std::string open(levels, '[');
  CHECK_THROWS_AS(read_trace_bytes(open), TraceError);
  CHECK_THROWS_AS(read_trace_bytes(open + std::string(levels, ']')), TraceError);
  std::string objects;
  for (std::size_t i = 0; i < levels / 10; ++i) objects += "{\"a\":";
  CHECK_THROWS_AS(read_trace_bytes(objects), TraceError);
}

TEST_CASE("files that cannot be read are errors that name them") {
  CHECK_THROWS_AS(read_trace("no/such/file.json"), TraceError);
  try {
    read_trace("no/such/file.json");
  } catch (const TraceError& error) {
    CHECK_THAT(error.what(), ContainsSubstring("no/such/file.json: error: cannot be opened"));
    CHECK(error.byte_offset() == TraceError::nowhere);
  }
  CHECK_THROWS_AS(read_trace(std::string(GPUSIM_SOURCE_DIR) + "/tests"), TraceError);
}

TEST_CASE("a trace cut at any byte is read or refused") {
  const std::string text =
      R"({"schemaVersion":1,"deviceProperties":[{"id":0,"name":"GPU"}],)" +
      trace_text({kernel("1.5", "2.25", 1, 7, R"(f<\"a\u00e4\">)"), call("cudaLaunchKernel", "0.125", "1", 1),
                  gpu_op({.cat = "gpu_memset",
                          .name = "m",
                          .ts = "\"5 us\"",
                          .dur = "1e0",
                          .more = R"(,"grid":[1,2])"}),
                  kernel("9", "1")})
          .substr(1);
  const std::string file = bytes_of(data_file("two_steps.json"));
  const auto cut = [](const std::string& whole, std::size_t step, std::size_t all) {
    std::size_t ops = 0;
    for (std::size_t length = 0; length < whole.size(); length += step) {
      try {
        const Trace trace = read_trace_bytes(std::string_view(whole).substr(0, length));
        summarize(trace);
        CHECK(trace.ops.size() >= ops);  // more text never loses an event
        ops = trace.ops.size();
      } catch (const TraceError& error) {
        CHECK(error.byte_offset() <= length);
      }
    }
    CHECK(ops == all);
  };
  cut(text, 1, 3);
  cut(file, 41, 6);
}

TEST_CASE("packed data cut at any byte are refused") {
  const std::string packed = gzip(bytes_of(data_file("two_steps.json")));
  for (std::size_t length = 2; length < packed.size(); ++length) {
    CHECK_THROWS_AS(read_trace_bytes(std::string_view(packed).substr(0, length)), TraceError);
  }
}

TEST_CASE("a trace with random bytes changed is read or refused") {
  const std::string text = bytes_of(data_file("two_steps.json"));
  const std::string packed = gzip(text);
  std::mt19937 random(20240607);
  const auto damage = [&](std::string bytes) {
    const auto count = 1 + random() % 8;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          bytes[at] = "{}[]\",:\\0-e.tn"[random() % 14];
          break;
        case 2:
          bytes.erase(at, 1 + random() % 5);
          break;
        default: {
          const std::size_t from = random() % bytes.size();
          bytes.insert(at, bytes.substr(from, random() % 40));
        }
      }
    }
    return bytes;
  };
  int read = 0;
  for (int i = 0; i < 1000; ++i) {
    try {
      const Summary summary = summarize(read_trace_bytes(damage(i % 8 == 0 ? packed : text)));
      CHECK_FALSE(summary_text(summary).empty());
      CHECK_FALSE(summary_json(summary).empty());
      ++read;
    } catch (const TraceError& error) {
      CHECK_FALSE(std::string(error.what()).empty());
    }
  }
  CHECK(read > 250);
}

namespace {

/// A file that is gone at the end of the test.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& bytes)
      : path_(std::filesystem::temp_directory_path() /
              ("gpusim_trace_" + std::to_string(::getpid()) + ".json")) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

/// So many kernels of 1 us, one every 2 us, with texts of a length that moves event borders through a window.
std::string long_trace(int kernels, const std::string& last = "") {
  std::string text =
      R"({"schemaVersion": 1, "metadata": ")" + std::string(300'000, 'm') + R"(", "traceEvents": [)";
  for (int i = 0; i < kernels; ++i) {
    if (i > 0) text += ",\n";
    text +=
        kernel(std::to_string(2 * i), "1", i, 7, "}, {" + std::string(static_cast<std::size_t>(i % 97), 'x'));
  }
  return text + last + R"(], "deviceProperties": [{"id": 0, "name": "H200"}]} )";
}

}  // namespace

TEST_CASE("a file larger than the window reads as the same text does in one piece") {
  const std::string text = long_trace(20'000);
  REQUIRE(text.size() > (std::size_t{3} << 20));
  for (const std::string& bytes : {text, gzip(text)}) {
    const TemporaryFile file(bytes);
    const Trace trace = read_trace(file.path());
    CHECK(trace.repairs.empty());
    CHECK(trace.events == 20'000);
    REQUIRE(trace.ops.size() == 20'000);
    for (std::size_t i = 0; i < trace.ops.size(); ++i) {
      if (trace.ops[i].start != Picoseconds(2'000'000) * static_cast<std::int64_t>(i)) FAIL("op " << i);
    }
    CHECK(trace.names.size() == 97);
    CHECK(trace.names[96] == "}, {" + std::string(96, 'x'));
    REQUIRE(trace.device_properties.size() == 1);
    CHECK(trace.device_properties[0].name == "H200");
  }
}

TEST_CASE("one event may be larger than the window") {
  const std::string args = R"(,"note":")" + std::string(1'000'000, '}') + "\"";
  const TemporaryFile file(
      long_trace(10, ",\n" + gpu_op({.cat = "kernel", .name = "big", .ts = "50", .dur = "1", .more = args})));
  const Trace trace = read_trace(file.path());
  CHECK(trace.repairs.empty());
  REQUIRE(trace.ops.size() == 11);
  CHECK(trace.name_of(trace.ops[10].name) == "big");
}

TEST_CASE("damage far into a large file is repaired as in a small one") {
  std::string text = long_trace(20'000);
  const TemporaryFile cut(text.substr(0, text.size() - 200'000));
  const Trace trace = read_trace(cut.path());
  CHECK(trace.repairs == std::vector<std::string>{"truncated"});
  CHECK(trace.ops.size() > 18'000);
  CHECK(trace.ops.size() < 20'000);
}

TEST_CASE("the way through a file is told") {
  const TemporaryFile file(long_trace(20'000));
  std::uint64_t last = 0;
  std::uint64_t total = 0;
  int times = 0;
  read_trace(file.path(), {}, [&](std::uint64_t taken, std::uint64_t size) {
    CHECK(taken >= last);
    last = taken;
    total = size;
    ++times;
  });
  CHECK(times > 5);
  CHECK(last == total);
  CHECK(total == std::filesystem::file_size(file.path()));
}
