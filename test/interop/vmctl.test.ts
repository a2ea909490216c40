/** vmctl, which moves data between databases: it reads all of a metric here by remote read, and sends it to a VictoriaMetrics. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { createGunzip } from 'node:zlib'
import { startNode } from './node.ts'
import { execute } from './program.ts'
import { missing } from './service.ts'

const skip = missing('vmctl')
const QUIET = ['-s', '--disable-progress-bar']

interface Imported {
  metric: Record<string, string>
  values: number[]
  timestamps: number[]
}

/** Takes what VictoriaMetrics takes at `/api/v1/import`. */
async function startImport(): Promise<{ url: string; lines: Imported[]; stop(): void }> {
  const lines: Imported[] = []
  const server = createServer(async (request, response) => {
    const body = await text(request.headers['content-encoding'] === 'gzip' ? request.pipe(createGunzip()) : request)
    if (request.url?.startsWith('/api/v1/import'))
      lines.push(
        ...body
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line) as Imported),
      )
    response.writeHead(request.method === 'POST' ? 204 : 200).end()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, lines, stop: () => void server.close().closeAllConnections() }
}

for (const stream of [false, true])
  test(`vmctl remote-read, ${stream ? 'streamed chunks' : 'samples'}: all that was written is read`, { skip }, async (t) => {
    const node = await startNode({ plugins: ['line_protocol', 'remote_write', 'promql'] })
    const target = await startImport()
    t.after(async () => {
      target.stop()
      await node.stop()
    })
    // Over three hours, which vmctl asks for one by one.
    const begin = Math.floor(Date.now() / 3_600_000) * 3_600_000 - 3 * 3_600_000
    const times = Array.from({ length: 1080 }, (_, i) => begin + i * 10_000)
    const written = times.map((time, i) => ['a', 'b'].map((host) => `cpu,host=${host} usage=${i / 8} ${time}`).join('\n')).join('\n')
    const answer = await fetch(`${node.url}/write?precision=ms`, { method: 'POST', body: written })
    assert.equal(answer.status, 204, await answer.text())
    const from = [
      `--remote-read-src-addr=${node.url}`,
      `--remote-read-use-stream=${stream}`,
      `--remote-read-filter-time-start=${new Date(begin).toISOString()}`,
    ]
    const chosen = ['--remote-read-step-interval=hour', '--remote-read-filter-label=__name__', '--remote-read-filter-label-value=cpu_usage']
    const { code, stdout, stderr } = await execute('vmctl', ['remote-read', ...from, ...chosen, `--vm-addr=${target.url}`, ...QUIET])
    assert.equal(code, 0, stdout + stderr)
    for (const host of ['a', 'b']) {
      const lines = target.lines.filter(({ metric }) => metric.host === host)
      const found = new Map(lines.flatMap(({ timestamps, values }) => timestamps.map((time, i) => [time, values[i]] as const)))
      assert.deepEqual(
        [...found].sort(([a], [b]) => a - b),
        times.map((time, i) => [time, i / 8]),
        host,
      )
      assert.ok(lines.every(({ metric }) => metric.__name__ === 'cpu_usage'))
    }
  })

test('vmctl influx: InfluxQL is refused in words', { skip }, async (t) => {
  const node = await startNode({ plugins: ['line_protocol', 'sql'] })
  const target = await startImport()
  t.after(async () => {
    target.stop()
    await node.stop()
  })
  const { code, stdout, stderr } = await execute('vmctl', ['influx', `--influx-addr=${node.url}`, '--influx-database=d', `--vm-addr=${target.url}`, ...QUIET])
  assert.notEqual(code, 0)
  assert.match(stdout + stderr, /cannot answer "show field keys": this endpoint knows CREATE DATABASE and SHOW DATABASES; query by POST \/api\/v1\/svc\/sql/)
})
