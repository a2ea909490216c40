import { collect } from 'svcdb/lib/heap'
import t from 'tap'
import { until } from '../../../test/support/until.ts'
import { TestDatabase } from '../testing/engine-state.ts'

t.test('it is settled when no statement is on its way: a thread that leaves before ends the process', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const { duck } = await db.context()
  const left = new Set(['a sum', 'a failure', 'an interrupted one'])
  const ended = (name: string) => (): boolean => left.delete(name)
  const aborter = new AbortController()
  const sum = duck.run('SELECT sum(i) AS n FROM range(20000000) t(i)').finally(ended('a sum'))
  const failure = duck.run("SELECT error('no') FROM range(3)").finally(ended('a failure'))
  const interrupted = duck.run('SELECT count(*) FROM range(1000000) a, range(1000000) b', aborter.signal).finally(ended('an interrupted one'))
  const outcomes = Promise.allSettled([sum, failure, interrupted])
  aborter.abort()
  await duck.settled()
  t.same([...left], [])
  t.same(
    (await outcomes).map(({ status }) => status),
    ['fulfilled', 'rejected', 'rejected'],
  )
})

const MIB = 1 << 20
/** Other threads may allocate where something was just freed, or the system may take it by itself. */
const ATTEMPTS = 5
const glibc = (process.report.getReport() as { header: { glibcVersionRuntime?: string } }).header.glibcVersionRuntime

t.test('what was freed is given back to the system', { skip: glibc === undefined && 'only glibc keeps it' }, async (t) => {
  const db = new TestDatabase({ givesBack: true })
  t.teardown(() => db.close())
  const { duck } = await db.context()
  await duck.giveBack()
  t.equal(await duck.memory(), 0, 'no instance is opened for it')
  await duck.run('SELECT 1')
  const outcomes: string[] = []
  let given = false
  for (let attempt = 0; attempt < ATTEMPTS && !given; attempt++) {
    const base = process.memoryUsage.rss()
    const freed = await freedButKept(200 * MIB)
    const before = process.memoryUsage.rss()
    await duck.giveBack()
    const after = process.memoryUsage.rss()
    given = before - after > freed / 2
    outcomes.push(`${[base, before, after].map((bytes) => Math.round(bytes / MIB)).join(', then ')} MiB`)
  }
  t.ok(given, outcomes.join('; '))
})

t.test('it has no other setting for it, and none where statements of clients run', async (t) => {
  const own = new TestDatabase({ givesBack: true })
  const clients = new TestDatabase()
  t.teardown(() => Promise.all([own.close(), clients.close()]))
  const { duck } = await clients.context()
  await t.rejects(duck.run("SET memory_limit = '1GB'"), /locked|configuration/i)
  await duck.giveBack()
  await t.rejects((await own.context()).duck.run('SET threads = 3'), /locked|configuration/i)
})

/** Small buffers of which some are still there, so that the allocator cannot give back the rest by itself. @returns bytes that were freed. */
async function freedButKept(bytes: number): Promise<number> {
  const each = 64 << 10
  const others = process.memoryUsage().arrayBuffers
  const all = Array.from({ length: bytes / each }, () => new ArrayBuffer(each))
  for (const buffer of all) new Uint8Array(buffer).fill(1)
  left = all.filter((_, i) => i % 16 === 0)
  all.length = 0
  collect()
  // V8 frees them in a thread of its own: the next collection waits for it, and whatever is late is waited for here.
  collect()
  await until('what was collected is freed', () => process.memoryUsage().arrayBuffers <= others + left.length * each + MIB)
  return bytes - left.length * each
}

let left: ArrayBuffer[] = []
