// The Go client of Prometheus' HTTP API, with which Kiali, KEDA, Argo Rollouts and others ask, and the senders of remote write beside it.
// Argument: the URL.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/client_golang/exp/api/remote"
	writev2 "github.com/prometheus/client_golang/exp/api/remote/genproto/v2"
	"github.com/prometheus/common/model"
)

var (
	ctx = context.Background()
	now = time.Now().Truncate(time.Second)
)

func main() {
	client, err := api.NewClient(api.Config{Address: os.Args[1]})
	if err != nil {
		panic(err)
	}
	prometheus := v1.NewAPI(client)
	checks := []struct {
		name string
		run  func(v1.API) error
	}{
		{"sends remote write 2.0", send}, {"is told what is refused", refused},
		{"queries", query}, {"queries over a range", queryRange}, {"a query that is wrong", wrong}, {"statistics", statistics}, {"labels", labels}, {"series", series},
		{"metadata", metadata}, {"exemplars", exemplars}, {"build and runtime", build}, {"flags and configuration", flags},
		{"rules, alerts, targets", rules}, {"the state of the storage", storage}, {"lays out a query", format},
	}
	for _, check := range checks {
		if err := check.run(prometheus); err != nil {
			reason, _ := json.Marshal(err.Error())
			fmt.Printf("not ok %s\t%s\n", check.name, reason)
		} else {
			fmt.Printf("ok %s\n", check.name)
		}
	}
	fmt.Printf("end %d\n", len(checks))
}

func same(what string, got, expected any) error {
	if reflect.DeepEqual(got, expected) {
		return nil
	}
	return fmt.Errorf("%s: %v, not %v", what, got, expected)
}

// A counter of two series with metadata and an exemplar, and a native histogram.
func request(at time.Time) *writev2.Request {
	symbols := writev2.NewSymbolTable()
	help, unit := symbols.Symbolize("Requests."), symbols.Symbolize("requests")
	var all []*writev2.TimeSeries
	for i, job := range []string{"api", "web"} {
		all = append(all, &writev2.TimeSeries{
			LabelsRefs: symbols.SymbolizeLabels([]string{"__name__", "go_requests_total", "job", job}, nil),
			Metadata:   &writev2.Metadata{Type: writev2.Metadata_METRIC_TYPE_COUNTER, HelpRef: help, UnitRef: unit},
			Samples:    []*writev2.Sample{{Value: float64(i + 1), Timestamp: at.UnixMilli() - 60_000}, {Value: float64(i + 5), Timestamp: at.UnixMilli()}},
			Exemplars:  []*writev2.Exemplar{{LabelsRefs: symbols.SymbolizeLabels([]string{"trace_id", "abc"}, nil), Value: 1, Timestamp: at.UnixMilli()}},
		})
	}
	all = append(all, &writev2.TimeSeries{
		LabelsRefs: symbols.SymbolizeLabels([]string{"__name__", "go_seconds"}, nil),
		Metadata:   &writev2.Metadata{Type: writev2.Metadata_METRIC_TYPE_HISTOGRAM},
		Histograms: []*writev2.Histogram{{
			Count: &writev2.Histogram_CountInt{CountInt: 3}, Sum: 4.5, Schema: 0, ZeroThreshold: 1e-128, ZeroCount: &writev2.Histogram_ZeroCountInt{ZeroCountInt: 0},
			PositiveSpans: []*writev2.BucketSpan{{Offset: 0, Length: 2}}, PositiveDeltas: []int64{1, 1}, Timestamp: at.UnixMilli(),
		}},
	})
	return &writev2.Request{Symbols: symbols.Symbols(), Timeseries: all}
}

func send(v1.API) error {
	sender, err := remote.NewAPI(os.Args[1], remote.WithAPIPath("api/v1/write"))
	if err != nil {
		return err
	}
	stats, err := sender.Write(ctx, remote.WriteV2MessageType, request(now))
	if err != nil {
		return err
	}
	return same("written", []int{stats.Samples, stats.Histograms, stats.Exemplars}, []int{4, 1, 2})
}

// A request of which a part is too old: what was written is counted, and nothing is sent again.
func refused(v1.API) error {
	again := 0
	sender, err := remote.NewAPI(os.Args[1], remote.WithAPIPath("api/v1/prom/write"))
	if err != nil {
		return err
	}
	symbols := writev2.NewSymbolTable()
	message := &writev2.Request{Timeseries: []*writev2.TimeSeries{{
		LabelsRefs: symbols.SymbolizeLabels([]string{"__name__", "go_gauge"}, nil),
		Samples:    []*writev2.Sample{{Value: 1, Timestamp: 1000}, {Value: 2, Timestamp: now.UnixMilli() - 1000}, {Value: 3, Timestamp: now.UnixMilli()}},
	}}}
	message.Symbols = symbols.Symbols()
	stats, err := sender.Write(ctx, remote.WriteV2MessageType, message, remote.WithWriteRetryCallback(func(error) { again++ }))
	if err == nil || !strings.Contains(err.Error(), "400") {
		return fmt.Errorf("the error is %v", err)
	}
	return same("written, sent again", []int{stats.Samples, again}, []int{2, 0})
}

func query(p v1.API) error {
	found, warnings, infos, err := p.Query(ctx, `sum by (job) (go_requests_total)`, now, v1.WithTimeout(5*time.Second), v1.WithLookbackDelta(time.Minute), v1.WithLimit(10))
	if err != nil || len(warnings) > 0 || len(infos) > 0 {
		return fmt.Errorf("%v %v %v", err, warnings, infos)
	}
	at := model.TimeFromUnixNano(now.UnixNano())
	if err := same("sum", found.String(), fmt.Sprintf("{job=\"api\"} => 5 @[%s]\n{job=\"web\"} => 6 @[%s]", at, at)); err != nil {
		return err
	}
	found, _, _, err = p.Query(ctx, "go_seconds", now)
	if err != nil {
		return err
	}
	histogram := found.(model.Vector)[0].Histogram
	if err := same("histogram", []any{histogram.Count, histogram.Sum, len(histogram.Buckets)}, []any{model.FloatString(3), model.FloatString(4.5), 2}); err != nil {
		return err
	}
	_, _, infos, err = p.Query(ctx, "rate(go_gauge[5m])", now)
	if err == nil {
		err = same("infos", len(infos), 1)
	}
	return err
}

func queryRange(p v1.API) error {
	found, _, _, err := p.QueryRange(ctx, "go_requests_total", v1.Range{Start: now.Add(-time.Minute), End: now, Step: time.Minute})
	if err != nil {
		return err
	}
	matrix := found.(model.Matrix)
	if len(matrix) != 2 {
		return fmt.Errorf("%v", matrix)
	}
	return same("values", []model.SampleValue{matrix[0].Values[0].Value, matrix[0].Values[1].Value}, []model.SampleValue{1, 5})
}

func wrong(p v1.API) error {
	_, _, _, err := p.Query(ctx, "rate(go_requests_total)", now)
	failure, ok := err.(*v1.Error)
	if !ok || failure.Type != v1.ErrBadData || !strings.Contains(failure.Msg, "parse error") {
		return fmt.Errorf("%v", err)
	}
	_, _, _, err = p.Query(ctx, `label_replace(go_requests_total, "job", "x", "", "")`, now)
	if failure, ok = err.(*v1.Error); !ok || failure.Type != v1.ErrExec {
		return fmt.Errorf("%v", err)
	}
	return nil
}

func statistics(p v1.API) error {
	_, _, _, err := p.Query(ctx, "go_requests_total", now, v1.WithStats(v1.AllStatsValue))
	return err
}

func labels(p v1.API) error {
	names, _, _, err := p.LabelNames(ctx, []string{"go_requests_total"}, now.Add(-time.Hour), now)
	if err != nil {
		return err
	}
	if err := same("names", names, model.LabelNames{"__name__", "job"}); err != nil {
		return err
	}
	values, _, _, err := p.LabelValues(ctx, "job", []string{"go_requests_total"}, now.Add(-time.Hour), now)
	if err != nil {
		return err
	}
	return same("values", values, model.LabelValues{"api", "web"})
}

func series(p v1.API) error {
	all, warnings, _, err := p.Series(ctx, []string{"go_requests_total"}, now.Add(-time.Hour), now, v1.WithLimit(1))
	if err != nil {
		return err
	}
	return same("series and warnings", []int{len(all), len(warnings)}, []int{1, 1})
}

func metadata(p v1.API) error {
	found, err := p.Metadata(ctx, "go_requests_total", "1")
	if err != nil {
		return err
	}
	return same("metadata", found["go_requests_total"], []v1.Metadata{{Type: v1.MetricTypeCounter, Help: "Requests.", Unit: "requests"}})
}

func exemplars(p v1.API) error {
	found, err := p.QueryExemplars(ctx, `go_requests_total{job="api"}`, now.Add(-time.Hour), now)
	if err != nil {
		return err
	}
	if len(found) != 1 || len(found[0].Exemplars) != 1 {
		return fmt.Errorf("%v", found)
	}
	return same("labels", found[0].Exemplars[0].Labels, model.LabelSet{"trace_id": "abc"})
}

func build(p v1.API) error {
	info, err := p.Buildinfo(ctx)
	if err != nil || !strings.HasPrefix(info.Version, "3.") {
		return fmt.Errorf("%v %v", info, err)
	}
	runtime, err := p.Runtimeinfo(ctx)
	if err != nil || runtime.StartTime.IsZero() {
		return fmt.Errorf("%v %v", runtime, err)
	}
	_, err = p.WalReplay(ctx)
	return err
}

func flags(p v1.API) error {
	all, err := p.Flags(ctx)
	if err != nil || all["query.timeout"] == "" {
		return fmt.Errorf("%v %v", all, err)
	}
	config, err := p.Config(ctx)
	if err != nil || !strings.HasPrefix(config.YAML, "global:") {
		return fmt.Errorf("%v %v", config, err)
	}
	return nil
}

func rules(p v1.API) error {
	_, err := p.Rules(ctx, nil)
	if err == nil {
		_, err = p.Alerts(ctx)
	}
	if err == nil {
		_, err = p.AlertManagers(ctx)
	}
	if err == nil {
		_, err = p.Targets(ctx)
	}
	if err == nil {
		_, err = p.TargetsMetadata(ctx, "{job=\"api\"}", "", "")
	}
	return err
}

func storage(p v1.API) error {
	state, err := p.TSDB(ctx, v1.WithLimit(5))
	if err != nil {
		return err
	}
	if len(state.SeriesCountByMetricName) == 0 || state.HeadStats.NumSeries == 0 {
		return fmt.Errorf("%+v", state)
	}
	return nil
}

func format(p v1.API) error {
	text, err := p.FormatQuery(ctx, "sum by(job)(go_requests_total)/2")
	if err != nil {
		return err
	}
	return same("text", text, `"sum by (job) (go_requests_total) / 2"`)
}
