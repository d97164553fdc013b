// SPDX-License-Identifier: Apache-2.0
// Tables of measured collectives: what they hold, what may be wrong in one, how errors are listed.
#include <string>

#include "sim/validate/collective_table.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/message_of.hpp"

namespace {

using namespace gpusim;
using namespace gpusim::validate;

constexpr std::size_t graph = static_cast<std::size_t>(CollectiveMeasure::Graph);
constexpr std::size_t eager = static_cast<std::size_t>(CollectiveMeasure::Eager);

const std::string header = "collective,bytes,dtype,ranks,intra,graph_us,eager_us,blocks,machine\n";

CollectiveTable table(const std::string& text) {
  return read_collectives_text(text, "t.csv");
}

std::string mistakes(const std::string& text) {
  return test::message_of([&] { table(text); });
}

TEST_CASE("a table of collectives holds cases, limits and what hosts are calibrated on") {
  const CollectiveTable t = table(
      "# limit: CUDA graph median=10% worst=25%\n"
      "# calibrate: old on all_gather 32 KiB bf16 x2\n" +
      header +
      "all_reduce,16384,fp32,8,nvlink4,11.5,40,2,\n"
      "all_gather,32768,bf16,2,nvlink4,,41,,old\n");
  REQUIRE(t.cases.size() == 2);
  CHECK(t.cases[0].collective.kind == CollectiveKind::AllReduce);
  CHECK(t.cases[0].collective.bytes == Bytes(16384));
  CHECK(t.cases[0].collective.dtype == Dtype::Fp32);
  CHECK(t.cases[0].collective.ranks == 8);
  CHECK(t.cases[0].us[graph] == 11.5);
  CHECK(t.cases[0].blocks == 2);
  CHECK_FALSE(t.cases[1].us[graph]);
  CHECK(t.cases[1].calibrated_on);
  CHECK(t.calibrations.at("old") == 1);
  REQUIRE(t.limits.size() == 1);
  CHECK(t.limits[0].measure == CollectiveMeasure::Graph);
  CHECK(t.limits[0].worst == 0.25);
}

TEST_CASE("mistakes in a table of collectives are located and reported together") {
  const std::string message = mistakes(header +
                                       "all_redcue,16384,bf16,2,nvlink4,,,,\n"
                                       "all_reduce,1.5,bf16,2,nvlink4,,,,\n"
                                       "all_reduce,16384,bf16,2,,,,,\n"
                                       "all_reduce,16384\n");
  CHECK_THAT(message, test::ContainsSubstring("t.csv:2:1: error: collective: unknown name 'all_redcue'"));
  CHECK_THAT(message,
             test::ContainsSubstring("t.csv:3:12: error: bytes: '1.5' is no whole number of at least 0"));
  CHECK_THAT(message, test::ContainsSubstring("t.csv:4:1: error: intra: a row needs the name of a link"));
  CHECK_THAT(message, test::ContainsSubstring("t.csv:5:1: error: 2 cells, but the header names 9 columns"));
  CHECK_THAT(mistakes("collective,bytes,ranks,intra,grpah_us\n"), test::ContainsSubstring("unknown column"));
  CHECK_THAT(mistakes("collective,bytes,bytes,ranks,intra\n"),
             test::ContainsSubstring("t.csv:1:18: error: bytes: the column is there twice"));
  CHECK_THAT(mistakes("# limit: kernel =5%\ncollective,bytes,ranks,intra\n"),
             test::ContainsSubstring("'=5%' is no percentage"));
  CHECK_THAT(mistakes("collective,bytes,ranks\n"), test::ContainsSubstring("intra: the column is missing"));
  CHECK_THAT(mistakes(""), test::ContainsSubstring("the table has no header"));
  CHECK_THAT(mistakes("# limit: grahp median=10%\n" + header),
             test::ContainsSubstring("unknown measure 'grahp'"));
  CHECK_THAT(mistakes("# limit: eager median=10\n" + header),
             test::ContainsSubstring("'median=10' is no percentage"));
  CHECK_THAT(mistakes("# calibrate: a on b\n" + header),
             test::ContainsSubstring("there is no eager case 'b' of 'a'"));
}

TEST_CASE("errors of collectives are listed worst first; limits count sizes from 16 KiB on") {
  const CollectiveTable t = table("# limit: CUDA graph median=11.5% worst=12%\n" + header +
                                  "all_reduce,1024,bf16,2,nvlink4,10,,,\n"
                                  "all_reduce,16384,bf16,2,nvlink4,10,,2,\n"
                                  "all_reduce,65536,bf16,2,nvlink4,10,,8,\n");
  std::vector<CollectivePrediction> predictions(3);
  predictions[0].us[graph] = 20;
  predictions[1].us[graph] = 10.5;
  predictions[2].us[graph] = 8.9;
  predictions[1].blocks = 2;
  predictions[2].blocks = 7;
  bool failed = false;
  std::string report = report_collectives(t, predictions, failed);
  CHECK_FALSE(failed);  // 11 % is the worst that counts; twice the time at 1 KiB does not
  CHECK_THAT(report, test::ContainsSubstring(
                         "CUDA graph: 2 cases from 16 KiB on, median error 11.0 %, worst 11.0 %"));
  CHECK(report.find("1 KiB") < report.find("64 KiB"));
  CHECK(report.find("64 KiB") < report.find("all_reduce 16 KiB"));
  CHECK_THAT(report, test::ContainsSubstring("blocks: 1 of 2 as measured"));
  predictions[2].us[graph] = 8.7;
  report = report_collectives(t, predictions, failed);
  CHECK(failed);
  CHECK_THAT(report, test::ContainsSubstring("past the limit: CUDA graph: worst 13.0 %, not 12.0 %"));
}

TEST_CASE("the row that sets a host's speed does not count for eager calls") {
  const CollectiveTable t =
      table("# limit: eager worst=1%\n# calibrate: old on all_reduce 16 KiB bf16 x2\n" + header +
            "all_reduce,16384,bf16,2,nvlink4,,40,,old\n"
            "all_reduce,65536,bf16,2,nvlink4,,40,,old\n");
  std::vector<CollectivePrediction> predictions(2);
  predictions[0].us[eager] = 80;
  predictions[1].us[eager] = 40;
  bool failed = false;
  report_collectives(t, predictions, failed);
  CHECK_FALSE(failed);
}

}  // namespace
