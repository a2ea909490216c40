/** Data points a second of processor time, decoder alone, and of the clock through the engine: node plugins/otlp/decoder.bench.ts [points] */

import { gzipSync } from 'node:zlib'
import { WriteBatch } from 'svcdb/lib/columns'
import { atOnce } from 'svcdb/lib/event-loop'
import { boot, FakeResolver } from 'svcdb/testkit'
import { OtlpDecoder } from './decoder.ts'
import { messageOfJson } from './json-request.ts'
import { type WireMetric, type WireResource, writeRequest } from './testing-wire.ts'
import { requestJson } from './testing-wire-json.ts'

const HOSTS = 4
const STATES = ['user', 'system', 'idle', 'nice', 'wait', 'interrupt', 'softirq', 'steal']
const pointsWanted = Number(process.argv[2] ?? 5_000_000)

/** As the Collector's host metrics receiver sends them, 8,000 points in a request of the batch processor: 4 hosts with 8 resource attributes. */
function requestOf(kind: 'sum' | 'gauge' | 'mixed' | 'explicit' | 'exponential', body: number): WireResource[] {
  const time = BigInt(Math.floor(Date.now() / 1000) * 1000 - 600_000 + body * 1000) * 1_000_000n
  const start = time - 3_600_000_000_000n
  return Array.from({ length: HOSTS }, (_, host) => ({
    attributes: {
      'host.name': `host-${host}.eu-west-1.example.com`,
      'host.arch': 'amd64',
      'os.type': 'linux',
      'os.description': 'Debian GNU/Linux 12 (bookworm) (Linux 6.1.0-18-amd64)',
      'service.name': 'collector',
      'service.instance.id': `3f2b8f34-1d4c-4e1a-9a77-${String(host).padStart(12, '0')}`,
      'cloud.region': 'eu-west-1',
      'deployment.environment': 'production',
    },
    scopes: [
      {
        name: 'github.com/open-telemetry/opentelemetry-collector-contrib/receiver/hostmetricsreceiver/internal/scraper/cpuscraper',
        version: '0.115.0',
        metrics: Array.from({ length: 20 }, (_, m) => metricOf(kind === 'mixed' ? (m % 2 === 0 ? 'sum' : 'gauge') : kind, m, start, time)),
      },
    ],
  }))
}

function metricOf(kind: 'sum' | 'gauge' | 'explicit' | 'exponential', m: number, start: bigint, time: bigint): WireMetric {
  const each = (i: number) => ({ attributes: { cpu: `cpu${Math.floor(i / STATES.length)}`, state: STATES[i % STATES.length] }, start, time })
  const value = () => Math.floor(Math.random() * 1e6) / 100
  const header = { name: `system.cpu.measure.${m}`, description: 'Total seconds each logical CPU spent on each mode.', unit: 's' }
  const counts = (length: number) => Array.from({ length }, (_, i) => BigInt(Math.floor(Math.random() * 200) + i))
  const total = (list: readonly bigint[]) => list.reduce((a, b) => a + b, 0n)
  const points = Array.from({ length: 100 }, (_, i) => i)
  if (kind === 'gauge') return { ...header, gauge: points.map((i) => ({ ...each(i), value: i % 4 === 0 ? BigInt(i * 1000) : value() })) }
  if (kind === 'sum') return { ...header, sum: points.map((i) => ({ ...each(i), value: value() })), temporality: 2, monotonic: true }
  if (kind === 'explicit') {
    const bounds = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
    return {
      ...header,
      histogram: points.map((i) => {
        const list = counts(bounds.length + 1)
        return { ...each(i), count: total(list), sum: value(), counts: list, bounds, min: 0, max: 11 }
      }),
      temporality: 2,
    }
  }
  return {
    ...header,
    exponential: points.map((i) => {
      const list = counts(80)
      return { ...each(i), count: total(list), sum: value(), scale: 4, positive: { offset: -20, counts: list } }
    }),
    temporality: 2,
  }
}

function decoding(resolver: FakeResolver): { run(message: Uint8Array): number } {
  const options = {
    names: 'otel',
    scopeTags: false,
    refuseDelta: false,
    dropped: new Set<string>(),
    maxBuckets: 1000,
    maxQuantiles: 1000,
    maxCacheBytes: 1 << 28,
    seed: 7,
  } as const
  const decoder = new OtlpDecoder(resolver, 'default', options)
  const batches = { points: new WriteBatch(resolver), gauges: new WriteBatch(resolver) }
  return {
    run(message) {
      const outcome = atOnce(
        decoder.decode(
          message,
          (name) => batches[name],
          () => {},
          { maxPoints: 1e9, maxFailures: 1 },
        ),
      )
      if (outcome.refused > 0) throw new Error(outcome.failures[0].message)
      batches.points.reset()
      batches.gauges.reset()
      return outcome.points
    },
  }
}

function measure(name: string, input: readonly Uint8Array[], run: (body: Uint8Array) => number, wanted = pointsWanted): void {
  for (let i = 0; i < 20; i++) run(input[i % input.length])
  let points = 0
  let bytes = 0
  const before = process.cpuUsage()
  for (let i = 0; points < wanted; i++) {
    points += run(input[i % input.length])
    bytes += input[i % input.length].length
  }
  const { user, system } = process.cpuUsage(before)
  report(name, points, bytes, (user + system) / 1e6)
}

async function throughEngine(): Promise<void> {
  const input = Array.from({ length: 100 }, (_, i) => gzipSync(writeRequest(requestOf('mixed', i)), { level: 1 }))
  const node = await boot({ plugins: ['otlp'], storage: 'embedded' })
  let points = 0
  let bytes = 0
  const start = process.hrtime.bigint()
  for (let i = 0; i < input.length; i += 4) {
    await Promise.all(
      input.slice(i, i + 4).map(async (body) => {
        const headers = { 'content-type': 'application/x-protobuf', 'content-encoding': 'gzip' }
        const { status } = await fetch(`${node.url}/v1/metrics`, { method: 'POST', body: new Uint8Array(body), headers })
        if (status !== 204) throw new Error(`answered ${status}`)
        points += HOSTS * 20 * 100
        bytes += body.length
      }),
    )
  }
  report('protobuf with gzip, over HTTP into the engine', points, bytes, Number(process.hrtime.bigint() - start) / 1e9)
  await node.stop()
}

function report(name: string, points: number, bytes: number, seconds: number): void {
  const rate = `${(points / seconds / 1e6).toFixed(2)} M points/s`
  console.log(
    `${name.padEnd(48)} ${rate.padStart(18)} ${((seconds / points) * 1e9).toFixed(0).padStart(5)} ns/point ${(bytes / seconds / 1e6).toFixed(0).padStart(5)} MB/s`,
  )
}

const bodies = (kind: Parameters<typeof requestOf>[0], count = 10) => Array.from({ length: count }, (_, i) => writeRequest(requestOf(kind, i)))
measure('protobuf, known series, sums', bodies('sum'), decoding(new FakeResolver()).run)
measure('protobuf, known series, gauges, a quarter integers', bodies('gauge'), decoding(new FakeResolver()).run)
measure('protobuf, known series, sums and gauges', bodies('mixed'), decoding(new FakeResolver()).run)
measure('protobuf, histograms of 15 buckets', bodies('explicit'), decoding(new FakeResolver()).run, pointsWanted / 4)
measure('protobuf, exponential histograms of 80 buckets', bodies('exponential', 4), decoding(new FakeResolver()).run, pointsWanted / 10)
measure('protobuf, new series each time', bodies('mixed', 4), (body) => decoding(new FakeResolver()).run(body), pointsWanted / 10)
const known = decoding(new FakeResolver())
const texts = Array.from({ length: 4 }, (_, i) => Buffer.from(JSON.stringify(requestJson(requestOf('mixed', i)))))
measure('JSON, known series, sums and gauges', texts, (body) => known.run(messageOfJson(body as Buffer)), pointsWanted / 10)
await throughEngine()
