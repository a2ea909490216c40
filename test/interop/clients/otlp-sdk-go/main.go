// The OpenTelemetry SDK of Go sends what otlp-sdk.test.ts knows of. Arguments: the URL, or `host:port` with `grpc`; `proto` or `grpc`; `cumulative` or `delta`.
package main

import (
	"context"
	"os"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	api "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
)

func check[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	ctx := context.Background()
	preferred := func(kind metric.InstrumentKind) metricdata.Temporality {
		switch kind {
		case metric.InstrumentKindCounter, metric.InstrumentKindObservableCounter, metric.InstrumentKindHistogram:
			if os.Args[3] == "delta" {
				return metricdata.DeltaTemporality
			}
		}
		return metricdata.CumulativeTemporality
	}
	var exporter metric.Exporter
	if os.Args[2] == "grpc" {
		exporter = check(otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithEndpoint(os.Args[1]), otlpmetricgrpc.WithInsecure(), otlpmetricgrpc.WithCompressor("gzip"), otlpmetricgrpc.WithTemporalitySelector(preferred)))
	} else {
		exporter = check(otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(os.Args[1]+"/v1/metrics"), otlpmetrichttp.WithCompression(otlpmetrichttp.GzipCompression), otlpmetrichttp.WithTemporalitySelector(preferred)))
	}
	provider := metric.NewMeterProvider(
		metric.WithResource(resource.NewSchemaless(attribute.String("service.name", "shop"), attribute.String("service.instance.id", "i-1"))),
		metric.WithReader(metric.NewPeriodicReader(exporter, metric.WithInterval(time.Hour))),
		metric.WithView(metric.NewView(metric.Instrument{Name: "app.size"}, metric.Stream{Aggregation: metric.AggregationBase2ExponentialHistogram{MaxSize: 160, MaxScale: 20}})),
	)
	meter := provider.Meter("interop", api.WithInstrumentationVersion("1.0"))
	requests := check(meter.Int64Counter("app.requests", api.WithDescription("Requests served"), api.WithUnit("{request}")))
	queue := check(meter.Int64UpDownCounter("app.queue"))
	temperature := check(meter.Float64Gauge("app.temperature", api.WithUnit("Cel")))
	latency := check(meter.Float64Histogram("app.latency", api.WithUnit("s"), api.WithExplicitBucketBoundaries(0.5, 1, 2)))
	size := check(meter.Int64Histogram("app.size", api.WithUnit("By")))
	seconds := 0.0
	core := api.WithAttributes(attribute.Int("core", 7), attribute.Bool("busy", true), attribute.StringSlice("flags", []string{"a", "b"}))
	check(meter.Float64ObservableCounter("app.cpu", api.WithUnit("s"), api.WithFloat64Callback(func(_ context.Context, o api.Float64Observer) error {
		seconds += 1.5
		o.Observe(seconds, core)
		return nil
	})))

	requests.Add(ctx, 3, api.WithAttributes(attribute.String("route", "/ü")))
	requests.Add(ctx, 4, api.WithAttributes(attribute.String("route", "/b")))
	queue.Add(ctx, 5)
	temperature.Record(ctx, 21.5)
	for _, value := range []float64{0.1, 0.7, 3} {
		latency.Record(ctx, value)
	}
	for _, value := range []int64{0, 1, 2, 4} {
		size.Record(ctx, value)
	}
	// What was taken in part is told by the error.
	if err := provider.ForceFlush(ctx); err != nil {
		println(err.Error())
	}
	requests.Add(ctx, 2, api.WithAttributes(attribute.String("route", "/ü")))
	queue.Add(ctx, -2)
	temperature.Record(ctx, 19.25)
	latency.Record(ctx, 0.2)
	size.Record(ctx, 8)
	if err := provider.Shutdown(ctx); err != nil {
		println(err.Error())
	}
}
