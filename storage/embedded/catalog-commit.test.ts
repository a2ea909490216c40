import { rmSync } from 'node:fs'
import { constants } from 'node:os'
import { open, type RootDatabase } from 'lmdb'
import t from 'tap'
import { CatalogCommits } from './catalog-commit.ts'
import { tempDir } from './testing/harness.ts'

type Database = RootDatabase<unknown, string>

function database(): { db: Database; commits: CatalogCommits; dispose(): Promise<void> } {
  const dir = tempDir()
  const db = open<unknown, string>({ path: dir, encoding: 'binary', overlappingSync: false, eventTurnBatching: false }) as Database
  const dispose = async () => {
    await db.close()
    rmSync(dir, { recursive: true })
  }
  return { db, commits: new CatalogCommits(db), dispose }
}

/** Makes the next batches fail the way lmdb reports a failed commit, until called again with undefined. */
function failing(db: Database): (errno: number | undefined, text?: string) => void {
  const batch = db.batch.bind(db)
  let failure: { errno: number; text: string } | undefined
  db.batch = ((body: () => void) => {
    if (failure === undefined) return batch(body)
    const cause = Object.assign(new Error(failure.text), { code: failure.errno })
    return Promise.reject(Object.assign(new Error('Commit failed (see commitError for details)'), { commitError: Promise.reject(cause) }))
  }) as typeof db.batch
  return (errno, text = '') => {
    failure = errno === undefined ? undefined : { errno, text }
  }
}

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
