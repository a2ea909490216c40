/** Keeps regions in the plugin's state: `region/<id>` each, and under `version` how often the table has changed. Every change raises the version with it. */
import type { StateStore, StateTransaction } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { type LeaderMove, ledBy, type Region, type RegionState } from './routing.ts'

const PREFIX = 'region/'
const VERSION = 'version'
const keyOf = (id: number): string => `${PREFIX}${id}`

interface RegionTable {
  version: number
  regions: Region[]
}

export class RegionStore {
  private readonly state: () => StateStore
  private readonly limit: number

  /** @param limit of regions. */
  constructor(state: () => StateStore, limit: number) {
    this.state = state
    this.limit = limit
  }

  /** As of one moment. */
  read(): Promise<RegionTable> {
    return this.state().transaction(async (tx) => {
      const [version, regions] = await Promise.all([tx.get<number>(VERSION), tx.list<Region>({ prefix: PREFIX })])
      return { version: version ?? 0, regions: regions.map(({ value }) => value) }
    })
  }

  create(region: Region): Promise<void> {
    return this.state().transaction(async (tx) => {
      const all = await tx.list<Region>({ prefix: PREFIX })
      const refused = (why: string) => new SvcError('CONFLICT', `cannot create region ${region.region_id}: ${why}`)
      if (all.some(({ value }) => value.region_id === region.region_id)) throw refused('there is one of this region_id; choose another')
      if (all.length >= this.limit) throw refused(`there are ${this.limit} already, and no more are kept`)
      tx.put(keyOf(region.region_id), region)
      await changed(tx)
    })
  }

  setState(id: number, state: RegionState): Promise<Region> {
    return this.state().transaction(async (tx) => {
      const before = await tx.get<Region>(keyOf(id))
      if (before === undefined) throw new SvcError('NOT_FOUND', `cannot change the state of region ${id}: there is none; GET /api/v1/admin/routing lists them`)
      const region = { ...before, state }
      if (before.state === state) return region
      tx.put(keyOf(id), region)
      await changed(tx)
      return region
    })
  }

  /** @param guard refuses whoever may not change it any more. @returns those that were still as the plan has them. */
  lead(moves: readonly LeaderMove[], guard?: (tx: StateTransaction) => Promise<void>): Promise<LeaderMove[]> {
    if (moves.length === 0) return Promise.resolve([])
    return this.state().transaction(async (tx) => {
      await guard?.(tx)
      const done: LeaderMove[] = []
      for (const move of moves) {
        const region = await tx.get<Region>(keyOf(move.region_id))
        if (region?.leader_node_id !== move.from || !region.replica_node_ids.includes(move.to)) continue
        tx.put(keyOf(move.region_id), ledBy(region, move.to))
        done.push(move)
      }
      if (done.length > 0) await changed(tx)
      return done
    })
  }
}

async function changed(tx: StateTransaction): Promise<void> {
  tx.put(VERSION, ((await tx.get<number>(VERSION)) ?? 0) + 1)
}
