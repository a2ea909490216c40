/** Commits of an engine's catalog that are held up or fail, the way lmdb reports it; for tests of what is under way meanwhile. */
import { constants } from 'node:os'
import type { KeyValueStore } from '../catalog/key-value-store.ts'
import type { EmbeddedEngine } from '../engine.ts'
import type { OpenDatabase } from '../open.ts'

/** What an open engine is made of: for what tests cannot see or hold up from outside. */
export const inside = (engine: EmbeddedEngine): OpenDatabase => (engine as unknown as { database: OpenDatabase }).database

interface HeldCommit {
  /** Resolves when LMDB is about to be asked. */
  reached: Promise<void>
  succeed(): void
  /** There is no space. */
  fail(): void
}

type Batch = KeyValueStore['batch']

/** Has `instead` asked in LMDB's place for the manifest's commits, until the returned function is called. */
function intercept(engine: EmbeddedEngine, instead: (batch: Batch) => Batch): () => void {
  const { catalog } = inside(engine)
  const { db } = catalog.store
  const { commit } = catalog
  catalog.commit = (make, index, owners, stored, ready) =>
    commit.call(
      catalog,
      () => {
        const change = make()
        const { batch } = db
        db.batch = ((body: () => void) => {
          db.batch = batch
          return instead(batch.bind(db) as Batch)(body)
        }) as Batch
        return change
      },
      index,
      owners,
      stored,
      ready,
    )
  return () => {
    catalog.commit = commit
  }
}

/** Holds the manifest's next commit up before LMDB has it; those behind it wait in the queue. */
export function holdCommit(engine: EmbeddedEngine): HeldCommit {
  let reach: () => void
  let decide: (failed: boolean) => void
  const reached = new Promise<void>((resolve) => (reach = resolve))
  const decided = new Promise<boolean>((resolve) => (decide = resolve))
  const stop = intercept(engine, (batch) => {
    stop()
    reach()
    return (async (body: () => void) => {
      if (await decided) throw failure()
      return batch(body)
    }) as Batch
  })
  return { reached, succeed: () => decide(false), fail: () => decide(true) }
}

/** The manifest's next commits fail. @param times so many. @param errno why; no space if nothing else is said. @returns what ends it. */
export function failCommits(engine: EmbeddedEngine, times: number, errno?: number): () => void {
  let left = times
  return intercept(engine, (batch) => ((body: () => void) => (left-- > 0 ? Promise.reject(failure(errno)) : batch(body))) as Batch)
}

/** The manifest's next commit is made, and nobody can tell: it is said to have failed. */
export function loseOutcome(engine: EmbeddedEngine): void {
  const stop = intercept(engine, (batch) => {
    stop()
    return (async (body: () => void) => {
      await batch(body)
      throw failure(constants.errno.EINVAL)
    }) as Batch
  })
}

function failure(code: number = constants.errno.ENOSPC): Error {
  const cause = Object.assign(new Error(`errno ${code}`), { code })
  return Object.assign(new Error('Commit failed (see commitError for details)'), { commitError: Promise.reject(cause) })
}
