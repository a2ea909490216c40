import { rmSync, statSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { open, type RootDatabase } from 'lmdb'
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { type FilePromises, type FileSystem, realFileSystem } from '../../common/log/file-system.ts'
import { tempDir } from '../testing/harness.ts'
import { CatalogCommits } from './commit.ts'

/** Once the page that names the newest transaction could not be written. */
const PANIC = -30_795
const CORRUPTED = -30_796

type Database = RootDatabase<unknown, string>

function database(free = 1e9, fs: FileSystem = realFileSystem): { db: Database; commits: CatalogCommits; dispose(): Promise<void> } {
  const dir = tempDir()
  const db = open<unknown, string>({ path: dir, encoding: 'binary', overlappingSync: false, eventTurnBatching: false }) as Database
  const dispose = async () => {
    await db.close()
    rmSync(dir, { recursive: true })
  }
  return { db, commits: new CatalogCommits(db, dir, () => free, fs), dispose }
}

/** Makes the next batches that store something fail the way lmdb reports a failed commit, until called again with undefined. */
function failing(db: Database): (errno: number | undefined, text?: string, times?: number) => void {
  const batch = db.batch.bind(db)
  const put = db.put.bind(db)
  let failure: { errno: number; text: string; times: number } | undefined
  let stores = false
  db.batch = ((body: () => void) => {
    if (failure === undefined || failure.times <= 0) return batch(body)
    stores = false
    db.put = (async () => (stores = true)) as typeof db.put
    body()
    db.put = put
    // LMDB writes nothing for a transaction without changes, so nothing can fail in it, unless it has panicked.
    if (!stores && failure.errno !== PANIC) return batch(body)
    failure.times--
    const cause = Object.assign(new Error(failure.text), { code: failure.errno })
    return Promise.reject(Object.assign(new Error('Commit failed (see commitError for details)'), { commitError: Promise.reject(cause) }))
  }) as typeof db.batch
  return (errno, text = '', times = Number.POSITIVE_INFINITY) => {
    failure = errno === undefined ? undefined : { errno, text, times }
  }
}

const openingBy = (open: FilePromises['open']): FileSystem => ({ ...realFileSystem, promises: { ...realFileSystem.promises, open } })
const bytes = (text: string): Uint8Array => Buffer.from(text)

t.test('transactions run one after the other, each sees those before it, and a body that throws changes nothing', async (t) => {
  const { db, commits, dispose } = database()
  const count = (): number => Number((db.get('n') as Buffer | undefined)?.toString() ?? 0)
  await Promise.all(
    Array.from({ length: 50 }, (_, i) =>
      commits
        .run((writes) => {
          writes.put('n', bytes(String(count() + 1)))
          if (i % 5 === 0) throw new Error('refused')
        })
        .catch((error: Error) => t.equal(error.message, 'refused')),
    ),
  )
  t.equal(count(), 40)
  t.equal(commits.fault, undefined, 'whatever a body throws')
  t.equal(await commits.run(() => 'nothing written'), 'nothing written')
  await t.rejects(
    commits.run((writes) => {
      writes.put('n', bytes('0'))
      writes.put('k'.repeat(5000), bytes('1'))
    }),
    { code: 'INVALID_REQUEST' },
    'a key that LMDB would refuse halfway through',
  )
  t.equal(count(), 40)
  await dispose()
})

t.test('a body runs once and alone: after `stored` of those before it, also when LMDB is asked again', async (t) => {
  const { db, commits, dispose } = database()
  failing(db)(constants.errno.EIO, 'Input/output error', 2)
  const order: string[] = []
  const run = (name: string) =>
    commits.run(
      (writes) => {
        order.push(name)
        writes.put(name, bytes(name))
      },
      () => order.push(`${name} stored`),
    )
  await Promise.all([run('a'), run('b'), run('c')])
  t.same(order, ['a', 'a stored', 'b', 'b stored', 'c', 'c stored'])
  await dispose()
})

for (const code of ['EMFILE', 'ENFILE', 'ENOMEM', 'EACCES', 'EIO', 'EROFS']) {
  t.test(`no room because of ${code}: LMDB was not touched, the commit fails and the next one is as good as before`, async (t) => {
    let fail = true
    const stored: string[] = []
    const open: FilePromises['open'] = async (...file) => {
      if (fail) throw Object.assign(new Error(`${code}: it failed`), { code })
      return realFileSystem.promises.open(...file)
    }
    const { db, commits, dispose } = database(1e9, openingBy(open))
    const put = () =>
      commits.run(
        (writes) => writes.put('a', bytes('1')),
        () => stored.push('a'),
      )
    await t.rejects(put(), { code: 'IO_ERROR', message: new RegExp(code) })
    t.equal(commits.fault, undefined)
    t.same(stored, [])
    fail = false
    await put()
    t.match(db.get('a'), bytes('1'))
    t.same(stored, ['a'])
    await dispose()
  })
}

for (const code of ['ENOSPC', 'EDQUOT']) {
  t.test(`no room because of ${code}: a full disk`, async (t) => {
    const { commits, dispose } = database(
      1e9,
      openingBy(() => Promise.reject(Object.assign(new Error('no space'), { code }))),
    )
    await t.rejects(
      commits.run((writes) => writes.put('a', bytes('1'))),
      { code: 'STORAGE_FULL' },
    )
    t.equal(commits.fault, undefined)
    await dispose()
  })
}

for (const errno of [constants.errno.ENOSPC, constants.errno.EDQUOT]) {
  t.test(`no space (${errno}): STORAGE_FULL, and commits resume by themselves`, async (t) => {
    const { db, commits, dispose } = database()
    const fail = failing(db)
    await commits.run((writes) => writes.put('a', bytes('1')))
    fail(errno, 'No space left on device')
    await t.rejects(
      commits.run((writes) => writes.put('a', bytes('2'))),
      { code: 'STORAGE_FULL' },
    )
    t.equal(commits.fault, undefined)
    fail(undefined)
    await commits.run((writes) => writes.remove('a'))
    t.equal(db.get('a'), undefined)
    await dispose()
  })
}

t.test('there is room in the file before LMDB writes to it', async (t) => {
  const { db, commits, dispose } = database()
  const { path } = db as unknown as { path: string }
  const inUse = (): number => {
    const { pageSize, lastPageNumber } = db.getStats() as { pageSize: number; lastPageNumber: number }
    return pageSize * (lastPageNumber + 1)
  }
  const batch = db.batch.bind(db)
  let room = 0
  db.batch = ((body: () => void) => {
    room = statSync(join(path, 'data.mdb')).size
    return batch(body)
  }) as typeof db.batch
  const random = seeded(7)
  for (let commit = 0; commit < 200; commit++) {
    await commits.run((writes) => {
      const n = 1 + Math.floor(random() ** 4 * 300)
      for (let i = 0; i < n; i++) {
        const key = `k/${Math.floor(random() * 20_000)}`
        if (random() < 0.2) writes.remove(key)
        else writes.put(key, Buffer.alloc(Math.floor(random() ** 6 * 60_000)))
      }
    })
    if (room < inUse()) t.fail(`commit ${commit} took ${inUse()} bytes, there was room for ${room}`)
  }
  t.ok(inUse() > 1e6, `${inUse()} bytes in use`)
  await dispose()
})

t.test('a file that was made longer is closed again, whether that went well or not', async (t) => {
  let [opened, closed] = [0, 0]
  let fails = false
  const open: FilePromises['open'] = async (...given) => {
    const file = await realFileSystem.promises.open(...given)
    opened++
    return new Proxy(file, {
      get(target, name) {
        if (name === 'close') return () => target.close().then(() => void closed++)
        if (name === 'write' && fails) return () => Promise.reject(Object.assign(new Error('no space'), { code: 'ENOSPC' }))
        const member = Reflect.get(target, name)
        return typeof member === 'function' ? member.bind(target) : member
      },
    })
  }
  const { commits, dispose } = database(1e9, openingBy(open))
  await commits.run((writes) => writes.put('a', bytes('1')))
  fails = true
  await t.rejects(
    commits.run((writes) => writes.put('a', Buffer.alloc(4 << 20))),
    { code: 'STORAGE_FULL' },
  )
  t.ok(opened >= 2)
  t.equal(closed, opened)
  await dispose()
})

t.test('a commit is done when LMDB has flushed it, and one that cannot be flushed is of unknown outcome', async (t) => {
  const { db, commits, dispose } = database()
  const flushes: { resolve(): void; reject(error: Error): void }[] = []
  Object.defineProperty(db, 'flushed', { get: () => new Promise<void>((resolve, reject) => flushes.push({ resolve, reject })) })
  const put = (stored: () => void) => commits.run((writes) => writes.put('a', bytes('1')), stored)
  let done = false
  const first = put(() => {
    done = true
  })
  const asked = async () => {
    for (let turn = 0; flushes.length === 0 && turn < 100_000; turn++) await new Promise((resolve) => setImmediate(resolve))
    if (flushes.length === 0) throw new Error('nobody waits for the flush')
    return flushes.shift() as (typeof flushes)[number]
  }
  const flush = await asked()
  t.equal(done, false)
  flush.resolve()
  await first
  t.equal(done, true)
  const second = put(() => t.fail('it is not durable'))
  ;(await asked()).reject(new Error('it failed'))
  await t.rejects(second, { code: 'OVERLOADED' })
  t.not(commits.fault, undefined)
  await dispose()
})

t.test('a write cut short by a full disk, which LMDB reports as EIO, is a full disk too', async (t) => {
  const { db, commits, dispose } = database(4096)
  const fail = failing(db)
  fail(constants.errno.EIO, 'Input/output error')
  await t.rejects(
    commits.run((writes) => writes.put('a', bytes('1'))),
    { code: 'STORAGE_FULL' },
  )
  fail(undefined)
  await commits.run((writes) => writes.put('a', bytes('2')))
  t.match(db.get('a'), bytes('2'))
  await dispose()
})

t.test('EIO of the page that names the newest transaction leaves the outcome unknown, on a full disk too', async (t) => {
  const { db, commits, dispose } = database(4096)
  const batch = db.batch.bind(db)
  const fail = failing(db)
  const failingBatch = db.batch.bind(db)
  let first = true
  db.batch = (async (body: () => void) => {
    if (!first) return failingBatch(body)
    first = false
    await batch(body)
    fail(PANIC, 'MDB_PANIC')
    const cause = Object.assign(new Error('Input/output error'), { code: constants.errno.EIO })
    throw Object.assign(new Error('Commit failed (see commitError for details)'), { commitError: Promise.reject(cause) })
  }) as typeof db.batch
  await t.rejects(
    commits.run((writes) => writes.put('a', bytes('1'))),
    { code: 'OVERLOADED', message: /MDB_PANIC/ },
  )
  t.match(db.get('a'), bytes('1'), 'here it stands')
  await dispose()
})

t.test('a panic after EIO is told, though lmdb answers no transaction any more', async (t) => {
  const { db, commits, dispose } = database()
  const { batch, get } = db
  db.batch = (() => {
    db.batch = (() => new Promise(() => {})) as typeof db.batch
    db.get = (() => {
      throw Object.assign(new Error('MDB_PANIC'), { code: PANIC })
    }) as typeof db.get
    const cause = Object.assign(new Error('Input/output error'), { code: constants.errno.EIO })
    return Promise.reject(Object.assign(new Error('Commit failed (see commitError for details)'), { commitError: Promise.reject(cause) }))
  }) as typeof db.batch
  const commit = () => commits.run((writes) => writes.put('a', bytes('1')))
  await t.rejects(commit(), { code: 'OVERLOADED', message: /MDB_PANIC.*restart the server/ })
  await t.rejects(commit(), { code: 'OVERLOADED' }, 'the next is told as well')
  Object.assign(db, { batch, get })
  await dispose()
})

t.test('what a body has read is stored when the log has it, and never where that fails', async (t) => {
  const { db, commits, dispose } = database()
  const log = Promise.withResolvers<void>()
  const stored: string[] = []
  const put = (text: string, ready: () => Promise<void>) =>
    commits.run(
      (writes) => writes.put('a', bytes(text)),
      () => stored.push(text),
      ready,
    )
  const first = put('1', () => log.promise)
  const second = put('2', () => Promise.reject(new Error('the log failed')))
  // Far more turns than a commit takes.
  for (let turn = 0; turn < 2000; turn++) await new Promise((resolve) => setImmediate(resolve))
  t.same([db.get('a'), stored], [undefined, []])
  log.resolve()
  await first
  await t.rejects(second, { message: 'the log failed' })
  t.match(db.get('a'), bytes('1'))
  t.same(stored, ['1'])
  t.equal(commits.fault, undefined, 'LMDB was not touched')
  await dispose()
})

t.test('an error of LMDB that is none of the disk leaves the outcome unknown at once', async (t) => {
  const { db, commits, dispose } = database()
  const fail = failing(db)
  fail(CORRUPTED, 'MDB_CORRUPTED')
  const refused = { code: 'OVERLOADED', message: /MDB_CORRUPTED/ }
  await t.rejects(
    commits.run((writes) => writes.put('a', bytes('1'))),
    refused,
  )
  fail(undefined)
  await t.rejects(
    commits.run((writes) => writes.put('a', bytes('2'))),
    refused,
  )
  t.equal(db.get('a'), undefined)
  await dispose()
})

t.test('EIO that passes is tried again', async (t) => {
  const { db, commits, dispose } = database()
  failing(db)(constants.errno.EIO, 'Input/output error', 2)
  await commits.run((writes) => writes.put('a', bytes('1')))
  t.match(db.get('a'), bytes('1'))
  await dispose()
})

t.test('any other failure leaves unknown what is on disk: nothing is committed any more', async (t) => {
  const { db, commits, dispose } = database()
  const fail = failing(db)
  fail(constants.errno.EIO, 'Input/output error')
  const refused = { code: 'OVERLOADED', message: /catalog could not be written \(Input\/output error\); restart/ }
  await t.rejects(
    commits.run((writes) => writes.put('a', bytes('1'))),
    refused,
  )
  fail(undefined)
  await t.rejects(
    commits.run((writes) => writes.put('a', bytes('1'))),
    refused,
  )
  t.match(commits.fault, refused)
  t.equal(db.get('a'), undefined)
  await dispose()
})
