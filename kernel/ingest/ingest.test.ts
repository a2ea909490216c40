import t, { type Test } from 'tap'
import type { CallContext } from '../auth/auth.ts'
import type { WriteBatch } from '../lib/columns/index.ts'
import { SvcError } from '../lib/errors/index.ts'
import { MetricsRegistry } from '../metrics.ts'
import type { Storage, WriteResult } from '../storage/storage.ts'
import { IngestGate } from './ingest.ts'

const ok: WriteResult = { written: 3, rejected: 0, rejections: [] }
const fill = (): void => {}

function contextOf(principal = 'anonymous', namespace = 'default'): CallContext {
  return { principal, method: 'none', claims: {}, roles: [], namespaces: [], admin: false, namespace, dataNamespace: '', requestId: 'r', address: undefined }
}

function setup(t: Test, write: Storage['write'] = async () => ok, { writeTimeoutMs = 1000, multiTenancy = false } = {}) {
  const taken: WriteBatch[] = []
  const recycled: WriteBatch[] = []
  const registry = new MetricsRegistry()
  t.teardown(() => registry.close())
  const clock = { now: 0 }
  const storage = {
    write,
    batch: (namespace: string) => {
      const batch = { namespace, rows: 3 } as WriteBatch
      taken.push(batch)
      return batch
    },
    recycle: (b: WriteBatch) => void recycled.push(b),
  } as unknown as Storage
  const gate = new IngestGate(
    () => storage,
    { writeTimeoutMs, dedupWindowMs: 1000, maxDedupEntries: 8, multiTenancy, maxPoints: 10, maxBytes: 10_000 },
    registry.child('kernel'),
    { now: () => clock.now, monotonic: () => clock.now, nowNanos: () => 1n },
  )
  const metric = async (line: string) => Number(new RegExp(`^${line.replace(/[{}]/g, '\\$&')} (.*)$`, 'm').exec(await registry.text())?.[1])
  return { gate, taken, recycled, clock, metric }
}

t.test('a repeated key within the window is a conflict, for the same caller and namespace only', async (t) => {
  const { gate, recycled, clock } = setup(t)
  const options = { idempotencyKey: 'k1' }
  t.same(await gate.write(contextOf(), options, () => 'all of it'), { ...ok, filled: 'all of it' })
  await t.rejects(gate.write(contextOf(), options, fill), { code: 'CONFLICT', message: /Idempotency-Key "k1"/ })
  t.equal(recycled.length, 1, 'the refused batch went back to the pool')
  await t.resolves(gate.write(contextOf('somebody'), options, fill))
  await t.resolves(gate.write(contextOf('anonymous', 'other'), options, fill))
  clock.now = 1001
  await t.resolves(gate.write(contextOf(), options, fill))
})

t.test('a failed write frees its key', async (t) => {
  let fail = true
  const { gate } = setup(t, async () => {
    if (fail) throw new SvcError('BACKPRESSURE', 'full')
    return ok
  })
  const options = { idempotencyKey: 'k1' }
  await t.rejects(gate.write(contextOf(), options, fill), { code: 'BACKPRESSURE' })
  fail = false
  await t.resolves(gate.write(contextOf(), options, fill))
})

t.test('a repeat waits for the write that is under way with its key: it may fail', async (t) => {
  const under: PromiseWithResolvers<WriteResult>[] = []
  const { gate, recycled } = setup(t, () => (under[under.length] = Promise.withResolvers<WriteResult>()).promise)
  const write = () => gate.write(contextOf(), { idempotencyKey: 'k1' }, fill)
  const [first, second, third] = [write(), write(), write()]
  const turn = () => new Promise(setImmediate)
  await turn()
  t.equal(under.length, 1)
  under[0].reject(new SvcError('STORAGE_FULL', 'no space'))
  await t.rejects(first, { code: 'STORAGE_FULL' })
  await turn()
  t.equal(under.length, 2, 'one of those that waited is written')
  under[1].resolve(ok)
  await t.resolves(second)
  await t.rejects(third, { code: 'CONFLICT' })
  t.equal(recycled.length, 1)
  await t.rejects(write(), { code: 'CONFLICT' })
})

t.test('a write of which nothing was stored frees its key, a partial one keeps it', async (t) => {
  let written = 0
  const { gate } = setup(t, async () => ({ written, rejected: 1, rejections: [] }))
  const options = { idempotencyKey: 'k1' }
  await gate.write(contextOf(), options, fill)
  written = 1
  await t.resolves(gate.write(contextOf(), options, fill))
  await t.rejects(gate.write(contextOf(), options, fill), { code: 'CONFLICT' })
})

t.test('keys of 1 to 255 characters', async (t) => {
  const { gate, recycled } = setup(t)
  await t.resolves(gate.write(contextOf(), { idempotencyKey: 'x'.repeat(255) }, fill))
  await t.rejects(gate.write(contextOf(), { idempotencyKey: 'x'.repeat(256) }, fill), { code: 'BAD_REQUEST' })
  await t.rejects(gate.write(contextOf(), { idempotencyKey: '' }, fill), { code: 'BAD_REQUEST' })
  t.equal(recycled.length, 2)
})

t.test('a late write answers that it may still be applied', async (t) => {
  const { gate, metric, recycled } = setup(t, () => new Promise(() => {}), { writeTimeoutMs: 10 })
  await t.rejects(gate.write(contextOf(), {}, fill), { code: 'WRITE_TIMEOUT', message: /may still be applied.*retrying is safe/ })
  t.equal(await metric('svc_write_errors_total{reason="timeout"}'), 1)
  t.equal(recycled.length, 0, 'the storage still has the batch')
})

t.test('the key of a late write is under way until the storage is done: a repeat is not written beside it', async (t) => {
  const under: PromiseWithResolvers<WriteResult>[] = []
  const { gate, recycled } = setup(t, () => (under[under.length] = Promise.withResolvers<WriteResult>()).promise, { writeTimeoutMs: 10 })
  const write = (idempotencyKey: string) => gate.write(contextOf(), { idempotencyKey }, fill)
  for (const key of ['stored', 'failed']) {
    await t.rejects(write(key), { code: 'WRITE_TIMEOUT' })
    await t.rejects(write(key), { code: 'WRITE_TIMEOUT', message: /same key.*under way/ }, 'nobody knows yet')
  }
  t.equal(under.length, 2, 'the storage has each once')
  t.equal(recycled.length, 2)
  const repeated = write('stored')
  under[0].resolve(ok)
  await t.rejects(repeated, { code: 'CONFLICT' })
  under[1].reject(new SvcError('IO_ERROR', 'the log failed'))
  const again = write('failed')
  await new Promise(setImmediate)
  under[2].resolve(ok)
  await t.resolves(again, 'the key is free')
})

t.test('a batch goes back when filling it fails, at once or later, or when it stays empty', async (t) => {
  let writes = 0
  const { gate, taken, recycled } = setup(t, async () => {
    writes++
    return ok
  })
  const bad = new SvcError('BAD_REQUEST', 'no points')
  const throws = (): never => {
    throw bad
  }
  await t.rejects(gate.write(contextOf(), {}, throws), bad)
  await t.rejects(
    gate.write(contextOf(), {}, async () => throws()),
    bad,
  )
  t.same(await gate.write(contextOf(), {}, (batch) => void Object.assign(batch, { rows: 0 })), { written: 0, rejected: 0, rejections: [], filled: undefined })
  await t.rejects(
    gate.writeSeveral(contextOf(), {}, (open) => {
      open()
      open()
      throw bad
    }),
    bad,
  )
  t.equal(writes, 0)
  t.same(recycled, taken)
  t.equal(taken.length, 5)
})

t.test('a batch is filled at once, in the namespace of the data', async (t) => {
  const { gate, taken } = setup(t, undefined, { multiTenancy: true })
  let filled = 0
  const writing = gate.write({ ...contextOf('a', 'acme'), dataNamespace: 'acme' }, {}, () => void filled++)
  t.same([filled, taken.map(({ namespace }) => namespace)], [1, ['acme']])
  await writing
})

t.test('points that nobody could read are not written', async (t) => {
  const apart = setup(t, undefined, { multiTenancy: true })
  const together = setup(t)
  const into = (namespace: string, dataNamespace: string) => ({ ...contextOf('a', namespace), dataNamespace })
  for (const dataNamespace of ['', 'other', 'Acme', 'acme ']) {
    await t.rejects(apart.gate.write(into('acme', dataNamespace), {}, fill), { code: 'FORBIDDEN', message: /nobody could read them/ })
    await t.rejects(apart.gate.writeSeveral(into('acme', dataNamespace), {}, fill), { code: 'FORBIDDEN' })
  }
  await t.rejects(apart.gate.write(into('Acme', 'Acme'), {}, fill), { code: 'FORBIDDEN' }, 'a name that no caller can give')
  await t.rejects(together.gate.write(into('acme', 'acme'), {}, fill), { code: 'FORBIDDEN' })
  t.same([...apart.taken, ...together.taken], [])
})

t.test('several batches are written each by itself, under one key, which is free again when one of them failed', async (t) => {
  const written: WriteBatch[] = []
  let failing = true
  const { gate, taken, recycled } = setup(t, async (batch) => {
    written.push(batch)
    if (failing && written.length % 2 === 0) throw new SvcError('BACKPRESSURE', 'full')
    return ok
  })
  const several = () =>
    gate.writeSeveral(contextOf(), { idempotencyKey: 'k' }, (open) => {
      Object.assign(open(), { rows: 0 })
      open()
      open()
      return 'filled'
    })
  const { filled, results } = await several()
  t.equal(filled, 'filled')
  const half = [
    { status: 'fulfilled', value: ok },
    { status: 'rejected', reason: { code: 'BACKPRESSURE' } },
  ]
  t.match(results, half)
  t.same([written, recycled], [taken.slice(1), taken.slice(0, 1)])
  t.match((await several()).results, half, 'the caller is told again what may be sent again')
  failing = false
  t.match((await several()).results, [{ status: 'fulfilled' }, { status: 'fulfilled' }])
  t.equal(written.length, 6)
  await t.rejects(several(), { code: 'CONFLICT' })
  t.equal(written.length, 6, 'a repeat writes nothing')
  t.same(recycled.slice(-3), taken.slice(-3))
})

t.test('an admission hook refuses before the storage sees the batch', async (t) => {
  let writes = 0
  const { gate, metric, recycled } = setup(t, async () => {
    writes++
    return ok
  })
  gate.admit(async (_batch, context) => {
    if (context.namespace === 'full') throw new SvcError('RATE_LIMITED', 'Too Many Requests')
  })
  await t.rejects(gate.write(contextOf('a', 'full'), {}, fill), { code: 'RATE_LIMITED' })
  t.same([writes, recycled.length], [0, 1])
  t.equal(await metric('svc_write_errors_total{reason="rejected"}'), 1)
  await gate.write(contextOf(), {}, fill)
  t.equal(writes, 1)
})

t.test('what would be refused whatever is in it is not decoded', async (t) => {
  const { gate, metric } = setup(t, async () => ok)
  const context = contextOf('a', 'full')
  gate.admit(
    () => {},
    ({ namespace }) => {
      if (namespace === 'full') throw new SvcError('RATE_LIMITED', 'Too Many Requests')
    },
  )
  const never = () => t.fail('decoded')
  await t.rejects(gate.write(context, {}, never), { code: 'RATE_LIMITED' })
  await t.rejects(gate.writeSeveral(context, {}, never), { code: 'RATE_LIMITED' })
  t.equal(await metric('svc_write_errors_total{reason="rejected"}'), 2)
  t.match(await gate.write(contextOf(), {}, fill), ok)
})

t.test('failures are counted by reason, backfilled points by number', async (t) => {
  let error: Error = Object.assign(new Error('no space'), { code: 'ENOSPC' })
  let failing = true
  const { gate, metric } = setup(t, async () => {
    if (failing) throw error
    return ok
  })
  await t.rejects(gate.write(contextOf(), {}, fill))
  error = new TypeError('a bug')
  await t.rejects(gate.write(contextOf(), {}, fill))
  failing = false
  await gate.write(contextOf(), { backfill: true }, fill)
  t.equal(await metric('svc_write_errors_total{reason="storage_full"}'), 1)
  t.equal(await metric('svc_write_errors_total{reason="panic"}'), 1)
  t.equal(await metric('svc_backfill_points_total'), 3)
})

t.test('the storage is told what the caller admits', async (t) => {
  const told: unknown[] = []
  const { gate } = setup(t, async (_, options) => {
    told.push(options)
    return ok
  })
  for (const options of [{}, { backfill: true }, { nonFinite: true }]) await gate.write(contextOf(), options, fill)
  t.same(told, [
    { backfill: false, nonFinite: false },
    { backfill: true, nonFinite: false },
    { backfill: false, nonFinite: true },
  ])
})

t.test('nothing is written for a credential that ended while its points were read', async (t) => {
  let writes = 0
  const { gate, recycled } = setup(t, async () => {
    writes++
    return ok
  })
  let revoked = false
  const context = { ...contextOf(), revoked: () => revoked }
  const end = () => {
    revoked = true
  }
  await t.rejects(gate.write(context, { idempotencyKey: 'k1' }, end), { code: 'UNAUTHORIZED', message: /was revoked or has expired/ })
  t.match([writes, recycled.length], [0, 1])
  revoked = false
  await t.resolves(gate.write(context, { idempotencyKey: 'k1' }, fill), 'the key is free')
})
