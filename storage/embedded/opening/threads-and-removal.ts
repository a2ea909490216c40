/** Drops and deletes, and the engine threads, which have the rows of the former and select series for the latter. */
import { ArchivedObjects } from '../archive/archived-objects.ts'
import { Ledger } from '../archive/ledger.ts'
import { LmdbState } from '../catalog/state-store.ts'
import { processPlaces, queryThreads } from '../config.ts'
import { Deletes } from '../retention/deletes.ts'
import { Drops } from '../retention/drops.ts'
import { Releases } from '../retention/releases.ts'
import { RetentionMoves } from '../retention/retention-moves.ts'
import { selectSeries } from '../series/select-series.ts'
import { functionSpec } from '../threads/function-spec.ts'
import { WorkerPool } from '../threads/pool/pool.ts'
import { stateEvents } from '../threads/publishing/state-events.ts'
import { WarmUpSchedule } from '../warm-up/schedule.ts'
import { type Opening, threadConfig } from './opening.ts'
import type { StoredData } from './stored-data.ts'
import type { WriteSide } from './write-side.ts'

/** Not a plugin's id. */
const ARCHIVE_STATE = 'storage.archive'
const CLAIM_STATE = 'storage.archive-claim'

export type ThreadsAndRemoval = ReturnType<typeof openThreadsAndRemoval>

export function openThreadsAndRemoval(opening: Opening, data: StoredData, writing: WriteSide) {
  const { config, context, environment, dataDir, dirs, encryption, catalog, tidyWanted } = opening
  const { metrics, shared, publisher, schema, index, unstored, windows, clock, segments, tombstones, times, readers, memtables } = data
  const { wal, scrubber, pressure, slices, names, changes, batches, results, writes } = writing
  const { fs, timers } = environment
  const { log } = context
  const releases = new Releases({ schema, index, writes, batches, publisher, log, slices, segments, times, unstored, metrics, names }, tombstones.byId.values())
  const drops = new Drops(
    { schema, index, memtables, windows, wal, writes, unstored, tombstones, releases, clock, publisher, changes, tidyWanted },
    catalog.drops(),
    catalog.endedDrops(),
  )
  const moves = new RetentionMoves(schema, memtables, tombstones, writes, wal)

  const ledger = new Ledger(new LmdbState(catalog.store, ARCHIVE_STATE))
  const archived = new ArchivedObjects({
    ...{ dataDir, paths: dirs, fs, config, log, segments, ledger, random: environment.random },
    identity: () => catalog.identity(),
    claims: new LmdbState(catalog.store, CLAIM_STATE),
  })
  const reading = { ...encryption.query, sqlFunctions: (context.sqlFunctions ?? []).map(functionSpec) }
  const pool = new WorkerPool({
    dataDir,
    shared,
    queryThreads: queryThreads(config),
    maxJobs: config.max_concurrent_queries,
    processes: processPlaces(config),
    config: {
      query: { ...threadConfig('query', opening), ...reading },
      background: { ...threadConfig('background', opening), ...reading },
      maintenance: threadConfig('maintenance', opening),
    },
    state: () => stateEvents({ schema, index, tombstones, drops, segments, memtables }),
    maintenanceDied: (cause) => {
      metrics.maintenancePanics.inc()
      return pressure.died(cause)
    },
    ...{ scrubber, readers, results, archived, metrics, publisher, log, environment },
  })
  const warmUp = new WarmUpSchedule({
    ...{ budgetMs: config.warm_up_ms, timers, log },
    coldThread: () => pool.coldThread(),
    wanted: () => schema.byId.some((measurement) => measurement !== undefined),
    busy: () => pool.activeJobs > 0,
  })
  pool.threadStarted = () => warmUp.wake()
  const select = selectSeries(pool)
  const deletes = new Deletes({ schema, index, memtables, wal, writes, tombstones, releases, changes, scrubber, slices, select, tidyWanted, metrics })
  return { releases, drops, moves, archived, pool, warmUp, deletes }
}
