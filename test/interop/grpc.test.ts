/** gRPC: a Python client generated from the proto file, and grpcurl, which knows the service by reflection only. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { ROOT } from '../support/tree.ts'
import { type Listeners, startListeners } from './listeners.ts'
import { cached, client, execute, lacking, lackingPython, PYTHON, runChecks } from './program.ts'

const SETTINGS = { sections: { grpc: 'reflection = true' } }

test('grpcio, generated from svc.proto', { skip: lackingPython('pyarrow', 'grpcio') }, async (t) => {
  const listeners = await startListeners(['grpc'], SETTINGS)
  t.after(() => listeners.stop())
  await runChecks(t, PYTHON, [client('grpc_python.py'), listeners.grpc, join(ROOT, 'plugins/grpc/svc.proto'), listeners.url])
})

test('grpcurl by reflection', { skip: lacking('grpcurl', 'bin/grpcurl') }, async (t) => {
  const listeners = await startListeners(['grpc'], SETTINGS)
  t.after(() => listeners.stop())
  const call = (args: string[], method: string, { grpc }: Listeners = listeners) =>
    execute(cached('bin/grpcurl'), ['-plaintext', ...args, grpc, ...method.split(' ')])

  await t.test('lists and describes', async () => {
    const { stdout } = await call([], 'list')
    for (const service of ['svc.Service', 'grpc.health.v1.Health']) assert.ok(stdout.split('\n').includes(service), stdout)
    assert.equal((await call([], 'list svc.Service')).stdout.trim().split('\n').length, 10)
    assert.match((await call([], 'describe svc.Point')).stdout, /string measurement = 1;/)
  })

  await t.test('calls: health, a write, a query, an error with its details', async () => {
    assert.deepEqual(JSON.parse((await call([], 'grpc.health.v1.Health/Check')).stdout), { status: 'SERVING' })
    const point = { measurement: 'm', tags: [{ key: 'host', value: 'a' }], fields: [{ key: 'v', value: { float64: 1.5 } }], timestamp: '1700000000000000000' }
    const written = await call(['-d', JSON.stringify({ points: [point] })], 'svc.Service/Write')
    assert.deepEqual(JSON.parse(written.stdout), { written: '1' }, written.stderr)
    const rows = await call(['-d', '{"measurement": "m", "format": "ROWS"}'], 'svc.Service/Query')
    assert.deepEqual(JSON.parse(rows.stdout).rows, [{ timestamp: point.timestamp, tags: point.tags, fields: point.fields }])
    const missing = await call(['-d', '{"measurement": "none"}'], 'svc.Service/GetSchema')
    assert.match(missing.stderr, /Code: NotFound/)
  })

  await t.test('reflection that is not configured is not there', async (t) => {
    const closed = await startListeners(['grpc'], { sections: { grpc: 'reflection = false' } })
    t.after(() => closed.stop())
    assert.match((await call([], 'list', closed)).stderr, /does not support the reflection API/)
  })
})
