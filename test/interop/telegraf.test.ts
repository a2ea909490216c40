/** Telegraf's outputs influxdb (v1), influxdb_v2, opentelemetry and http, fed from a file. */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { startListeners } from './listeners.ts'
import { type Node, startNode } from './node.ts'
import { vector } from './promql/compare.ts'

const skip = spawnSync('telegraf', ['version']).status === 0 ? false : 'telegraf is not on the path'
const BASE = 1_700_000_000_000_000_000n
const POINTS = 200
const SETTINGS = { v1: 'outputs.influxdb', v2: 'outputs.influxdb_v2' } as const
type Output = keyof typeof SETTINGS

function config(node: Node, output: Output, lines: string, more = ''): string {
  const target = output === 'v1' ? 'database = "telegraf"' : 'token = "any"\norganization = "any"\nbucket = "any"'
  return configOf(node, lines, `[[${SETTINGS[output]}]]\nurls = ["${node.url}"]\n${target}\n${more}`)
}

function configOf(node: Node, lines: string, output: string): string {
  writeFileSync(join(node.folder, 'points.lp'), lines)
  const file = join(node.folder, 'telegraf.conf')
  writeFileSync(
    file,
    `[agent]
interval = "300ms"
flush_interval = "300ms"
flush_jitter = "0s"
omit_hostname = true
[[inputs.file]]
files = ["${join(node.folder, 'points.lp')}"]
data_format = "influx"
${output}
`,
  )
  return file
}

/** Runs Telegraf until `done` is; returns what it logged. */
async function telegraf(file: string, done: () => Promise<unknown>): Promise<string> {
  const child = spawn('telegraf', ['--config', file], { stdio: ['ignore', 'pipe', 'pipe'] })
  let log = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (log += chunk))
  const exited = once(child, 'exit')
  try {
    await done()
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${log}`)
  } finally {
    child.kill('SIGTERM')
    await exited
  }
  return log
}

/** Its warnings about its own settings are none of ours. */
const complaints = (log: string) => log.split('\n').filter((line) => / E! | W! \[outputs/.test(line))
const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
const many = (measurement: string) =>
  Array.from({ length: POINTS }, (_, i) => `${measurement},host=h${i} f=${i + 0.5},i=${i}i,s="t ${i}",b=${i % 2 === 0} ${BASE + BigInt(i)}`).join('\n')

for (const output of ['v1', 'v2'] as const) {
  for (const encoding of ['gzip', 'identity']) {
    test(`${SETTINGS[output]}, ${encoding}: points arrive with their values, and nothing is complained about`, { skip }, async (t) => {
      const node = await startNode()
      t.after(() => node.stop())
      const log = await telegraf(config(node, output, many('m'), `content_encoding = "${encoding}"`), () => node.arrived('m', POINTS))
      assert.deepEqual(complaints(log), [], log)
      const rows = await node.rows('m')
      assert.equal(rows.length, POINTS)
      for (const { tags, fields } of rows) {
        const i = Number(tags.host.slice(1))
        assert.deepEqual(fields, { f: i + 0.5, i, s: `t ${i}`, b: i % 2 === 0 })
      }
      if (output === 'v1') assert.match(node.output(), /path=\/query status=200/, 'CREATE DATABASE was sent and answered')
    })
  }

  test(`${SETTINGS[output]}: 503 is tried again`, { skip }, async (t) => {
    const node = await startNode()
    t.after(() => node.stop())
    await node.fail('BACKPRESSURE', 2)
    const log = await telegraf(config(node, output, `retried v=1 ${BASE}`), () => node.arrived('retried', 1, 60_000))
    assert.equal(await node.failed(), 2)
    assert.ok(complaints(log).length > 0, 'it says that it had to wait')
  })

  test(`${SETTINGS[output]}: of a partial write the good points stay, and the bad one is not sent for ever`, { skip }, async (t) => {
    const node = await startNode()
    t.after(() => node.stop())
    // Two values of one field with different types in one batch.
    const log = await telegraf(config(node, output, `part,n=1 v=1 ${BASE}\npart,n=2 v="text" ${BASE}\npart,n=3 v=3 ${BASE}`), async () => {
      await node.arrived('part', 2)
      await wait(1000)
    })
    assert.deepEqual((await node.rows('part')).map(({ tags }) => tags.n).sort(), ['1', '3'])
    assert.match(log, /partial.write/i)
  })
}

test('outputs.influxdb_v2: 413 makes it split the batch', { skip }, async (t) => {
  const node = await startNode({ maxBodySize: 4096 })
  t.after(() => node.stop())
  await telegraf(config(node, 'v2', many('split')), () => node.arrived('split', POINTS))
  assert.match(node.output(), /status=413/)
  assert.equal((await node.rows('split')).length, POINTS)
})

/** A gauge, as numbers only. */
const gauges = (measurement: string) =>
  Array.from({ length: POINTS }, (_, i) => `${measurement},host=h${i} f=${i + 0.5} ${BigInt(Date.now()) * 1_000_000n}`).join('\n')
const sum = (POINTS * POINTS) / 2
const OTHERS = {
  'outputs.opentelemetry': (node: { grpc: string }) => `[[outputs.opentelemetry]]\nservice_address = "${node.grpc}"`,
  'outputs.http, remote write': (node: { url: string }) => `[[outputs.http]]
url = "${node.url}/api/v1/prom/write"
data_format = "prometheusremotewrite"
[outputs.http.headers]
Content-Type = "application/x-protobuf"
Content-Encoding = "snappy"
X-Prometheus-Remote-Write-Version = "0.1.0"`,
} as const

for (const [output, settings] of Object.entries(OTHERS)) {
  test(`${output}: points arrive, after 503 too`, { skip }, async (t) => {
    const node = await startListeners(['otlp', 'grpc'], { plugins: ['remote_write'] })
    t.after(() => node.stop())
    await node.fail('BACKPRESSURE', 2)
    const arrived = async () => {
      const query = 'sum(last_over_time({__name__=~"gauges.*", host=~"h.+"}[1h]))'
      for (const end = Date.now() + 60_000; (await vector(node.url, query))[0]?.value !== sum; await wait(200))
        if (Date.now() > end) throw new Error(node.output())
    }
    const log = await telegraf(configOf(node, gauges('gauges'), settings(node)), arrived)
    assert.equal(await node.failed(), 2, log)
  })
}
