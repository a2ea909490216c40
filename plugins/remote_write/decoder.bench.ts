/** Samples a second of processor time, decoder alone, and of the clock through the engine: node plugins/remote_write/decoder.bench.ts [samples] */

import { compressSync } from 'snappy'
import { WriteBatch } from 'svcdb/lib/columns'
import { atOnce } from 'svcdb/lib/event-loop'
import { webAssembly } from 'svcdb/lib/web-assembly'
import { boot, FakeResolver } from 'svcdb/testkit'
import type { Version } from './content.ts'
import { RequestDecoder } from './decoder.ts'
import { type WireSeries, writeRequest, writeRequestV2 } from './testing-wire.ts'

const HOSTS = 200
const SERIES_PER_BODY = 2000
const FIELDS = ['user', 'system', 'idle', 'nice', 'iowait', 'irq', 'softirq', 'steal', 'guest', 'guest_nice'].map((f) => `cpu_usage_${f}`)
/** Of the memory that messages lie in, 64 KiB each. */
const PAGES = 256
const samplesWanted = Number(process.argv[2] ?? 5_000_000)

/** Bodies shaped like those of node exporters: 11 labels a series. @param each samples of a series in one body */
function bodies(version: Version, each: number, count: number): Buffer[] {
  const regions = ['us-east-1', 'us-west-1', 'eu-west-1', 'eu-central-1', 'ap-southeast-1', 'sa-east-1']
  const start = Math.floor(Date.now() / 1000) * 1000 - 3_600_000
  return Array.from({ length: count }, (_, body) => {
    const series: WireSeries[] = []
    for (let i = 0; i < SERIES_PER_BODY; i++) {
      const host = Math.floor(i / FIELDS.length) % HOSTS
      const region = regions[host % regions.length]
      const labels: [string, string][] = Object.entries({
        __name__: FIELDS[i % FIELDS.length],
        arch: 'x64',
        datacenter: `${region}${'abc'[host % 3]}`,
        hostname: `host_${host}`,
        os: 'Ubuntu16.04LTS',
        rack: String(host % 100),
        region,
        service: String(host % 20),
        service_environment: 'production',
        service_version: String(host % 2),
        team: 'SF',
      })
      const samples = Array.from({ length: each }, (_, s) => ({ ms: start + (body * each + s) * 1000, value: Math.floor(Math.random() * 10_000) / 100 }))
      series.push({ labels, samples })
    }
    return version === 1 ? writeRequest(series) : writeRequestV2(series)
  })
}

/** @param inRuns messages lie in the memory of the thread that decompresses. */
function decode(name: string, version: Version, each: number, inRuns = false): void {
  const input = bodies(version, each, 10)
  const memory = { memory: new webAssembly!.Memory({ initial: PAGES, maximum: PAGES, shared: true }), maxPages: PAGES }
  if (inRuns) {
    let end = 0
    for (const [i, body] of input.entries()) {
      input[i] = Buffer.from(memory.memory.buffer, end, body.length)
      body.copy(input[i])
      end += body.length
    }
  }
  const resolver = new FakeResolver()
  const decoder = new RequestDecoder(resolver, 'default', { maxCacheBytes: 1 << 28, maxBuckets: 1000, memory: () => memory, seed: 7 })
  const batch = new WriteBatch(resolver)
  let samples = 0
  let bytes = 0
  const run = (body: Buffer) => {
    const outcome = atOnce(
      decoder.decode(
        version,
        body,
        batch,
        () => batch,
        () => {},
        { maxSamples: 1e9, maxFailures: 1, keepBoth: false },
      ),
    )
    if (outcome.refusedSamples > 0) throw new Error(outcome.failures[0].message)
    batch.reset()
    samples += outcome.floatRows
    bytes += body.length
  }
  for (let i = 0; i < 20; i++) run(input[i % input.length])
  samples = bytes = 0
  const before = process.cpuUsage()
  for (let i = 0; samples < samplesWanted; i++) run(input[i % input.length])
  const { user, system } = process.cpuUsage(before)
  report(name, samples, bytes, (user + system) / 1e6)
}

async function throughEngine(version: Version): Promise<void> {
  const input = bodies(version, 1, 200).map((body) => compressSync(body))
  const node = await boot({ plugins: ['remote_write'], storage: 'embedded' })
  const headers = version === 1 ? {} : { 'content-type': 'application/x-protobuf;proto=io.prometheus.write.v2.Request' }
  let samples = 0
  let bytes = 0
  const start = process.hrtime.bigint()
  for (let i = 0; i < input.length; i += 4) {
    await Promise.all(
      input.slice(i, i + 4).map(async (body) => {
        const { status } = await fetch(`${node.url}/api/v1/prom/write`, { method: 'POST', body: new Uint8Array(body), headers })
        if (status !== 204) throw new Error(`answered ${status}`)
        samples += SERIES_PER_BODY
        bytes += body.length
      }),
    )
  }
  report(`version ${version}, over HTTP into the engine`, samples, bytes, Number(process.hrtime.bigint() - start) / 1e9)
  await node.stop()
}

function report(name: string, samples: number, bytes: number, seconds: number): void {
  const rate = `${(samples / seconds / 1e6).toFixed(2)} M samples/s`
  console.log(
    `${name.padEnd(44)} ${rate.padStart(18)} ${((seconds / samples) * 1e9).toFixed(0).padStart(5)} ns/sample ${(bytes / seconds / 1e6).toFixed(0).padStart(5)} MB/s`,
  )
}

decode('version 1, known series, one sample each', 1, 1)
decode('the same, decompressed by the thread', 1, 1, true)
decode('version 1, known series, ten samples each', 1, 10)
decode('version 2, known series, one sample each', 2, 1)
decode('version 2, known series, ten samples each', 2, 10)
await throughEngine(1)
await throughEngine(2)
