/**
 * What a sample and a series of remote write cost, as a scraper sends them: each request has one sample of many series. A million series by default.
 *
 *   node test/scale/samples.ts [series] [samples of each]
 */
import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { compress } from 'snappy'
import { type WireSeries, writeRequest } from '../../plugins/remote_write/testing-wire.ts'
import { ServerProcess } from '../crash/server.ts'
import { processorSeconds, resident, threadTimes } from './process-figures.ts'

const METRICS = 100
const PER_REQUEST = 5000
const CONNECTIONS = 4
const STEP_MS = 10_000
const READY_LIMIT_MS = 300_000
const REST_MS = 2000

const [series = '1e6', samples = '4'] = process.argv.slice(2)
const count = Number(series)
const steps = Number(samples)
if (!Number.isSafeInteger(count) || !Number.isSafeInteger(steps) || count < 1000 || steps < 1)
  throw new Error('usage: node test/scale/samples.ts [series] [samples of each]')

function labelsOf(i: number): WireSeries['labels'] {
  const instance = Math.floor(i / METRICS)
  return [
    ['__name__', `node_metric_${i % METRICS}_total`],
    ['instance', `10.${instance >> 16}.${(instance >> 8) & 255}.${instance & 255}:9100`],
    ['job', 'node'],
    ['region', `region-${instance % 7}`],
  ]
}

const folder = await mkdtemp(join(tmpdir(), 'svc-samples-'))
const server = await ServerProcess.spawn({
  folder,
  engine: 'embedded',
  sql: true,
  plugins: ['remote_write', 'promql'],
  database: { result_cache_size: 0, max_series_cardinality: Math.max(1_000_000, count) },
})
try {
  await server.ready(READY_LIMIT_MS)
  const before = resident(server.pid).now
  const start = Math.floor(Date.now() / STEP_MS) * STEP_MS - steps * STEP_MS
  const walks = Float64Array.from({ length: count }, (_, i) => 1000 + (i % 977))
  let bytes = 0
  const send = async (step: number, first: number): Promise<void> => {
    const part: WireSeries[] = []
    for (let i = first; i < Math.min(count, first + PER_REQUEST); i++) {
      walks[i] += (i * 7 + step * 13) % 11
      part.push({ labels: labelsOf(i), samples: [{ ms: start + step * STEP_MS, value: walks[i] }] })
    }
    const body = await compress(writeRequest(part))
    bytes += body.length
    const headers = { 'content-encoding': 'snappy', 'content-type': 'application/x-protobuf', 'x-prometheus-remote-write-version': '0.1.0' }
    for (;;) {
      const answer = await fetch(`${server.url}/api/v1/write`, { method: 'POST', body: body as Uint8Array<ArrayBuffer>, headers })
      const text = await answer.text()
      if (answer.status < 300) return
      if (answer.status !== 503) throw new Error(`cannot write samples: ${answer.status} ${text}`)
      await setTimeout(200)
    }
  }
  const micros = (seconds: number, of: number): string => ((seconds * 1e6) / of).toFixed(2)
  for (let step = 0; step < steps; step++) {
    const firsts = Array.from({ length: Math.ceil(count / PER_REQUEST) }, (_, i) => i * PER_REQUEST)
    const all = processorSeconds(server.pid)
    const { main } = threadTimes(server.pid)
    await Promise.all(
      Array.from({ length: CONNECTIONS }, async () => {
        for (let first = firsts.shift(); first !== undefined; first = firsts.shift()) await send(step, first)
      }),
    )
    const mainMicros = ((threadTimes(server.pid).main - main) * 1000) / count
    process.stdout.write(
      `sample ${step + 1}: ${micros(processorSeconds(server.pid) - all, count)} µs of processor each, ${mainMicros.toFixed(2)} in the main thread\n`,
    )
  }
  const total = count * steps
  const resting = processorSeconds(server.pid)
  for (let last = resting; ; ) {
    await setTimeout(REST_MS)
    const now = processorSeconds(server.pid)
    if (now - last < 0.1) break
    last = now
  }
  const written = Number(/^write_bytes: (\d+)/m.exec(readFileSync(`/proc/${server.pid}/io`, 'utf8'))?.[1])
  const segments = await bytesBelow(join(folder, 'data', 'segments'))
  process.stdout.write(
    `after that ${micros(processorSeconds(server.pid) - resting, total)} µs a sample; on the wire ${(bytes / total).toFixed(1)} bytes a sample, written to disk ${(written / total).toFixed(1)}, in segments ${(segments / total).toFixed(2)} (what is not flushed is in the log)\n` +
      `resident ${Math.round(before)} MiB before, ${Math.round(resident(server.pid).now)} after, ${Math.round(resident(server.pid).peak)} at most: ${Math.round(((resident(server.pid).now - before) * 2 ** 20) / count)} bytes a series\n`,
  )
  const question = async (query: string): Promise<void> => {
    const time = (start + steps * STEP_MS) / 1000
    const url = `${server.url}/api/v1/query?${new URLSearchParams({ query, time: `${time}` })}`
    for (const which of ['first', 'second', 'third']) {
      const began = performance.now()
      const processor = processorSeconds(server.pid)
      const answer = (await (await fetch(url)).json()) as { status: string; error?: string }
      const outcome = answer.status === 'success' ? '' : ` ${answer.error}`
      process.stdout.write(
        `${query}, ${which}: ${Math.round(performance.now() - began)} ms, ${Math.round((processorSeconds(server.pid) - processor) * 1000)} ms of processor${outcome}\n`,
      )
    }
  }
  await question('sum by (region) (node_metric_7_total)')
  await question('sum by (region) (rate(node_metric_7_total[5m]))')
  await question('count({__name__=~"node_metric_.*"})')
} finally {
  if (server.running) await server.end('SIGKILL')
  await rm(folder, { recursive: true, force: true })
}

async function bytesBelow(root: string): Promise<number> {
  let sum = 0
  for (const entry of readdirSync(root, { recursive: true, withFileTypes: true }))
    if (entry.isFile()) sum += (await stat(join(entry.parentPath, entry.name))).size
  return sum
}
