/** Reads and changes what is kept of nodes and leases: each method one transaction or one read. See records.ts for the invariants. */
import { SvcError } from '../lib/errors/index.ts'
import type { StateReader, StateStore, StateTransaction } from '../storage/state.ts'
import { holds, LEASE_KEYS, type LeaseRecord, leaseKey, NODE_KEYS, type NodeDescription, type NodeRecord, nodeKey, type Slot, workOf } from './records.ts'

export interface Snapshot {
  nodes: Map<number, NodeRecord>
  leases: Map<string, LeaseRecord>
}

/** What a process says at each beat. */
interface Beat {
  session: string
  wants: string[]
  now: number
  timeoutMs: number
  drained: boolean
}

/** What was seen of a lease before it is taken: it is left alone where it has changed meanwhile. */
export interface Takeable {
  work: string
  seen: LeaseRecord | undefined
  /** Of whoever seems to be dead. */
  ownerBeat: number | undefined
}

export class ClusterRegistry {
  private readonly store: StateStore

  constructor(store: StateStore) {
    this.store = store
  }

  async read(reader: StateReader = this.store): Promise<Snapshot> {
    const [nodes, leases] = await Promise.all([reader.list<NodeRecord>(NODE_KEYS), reader.list<LeaseRecord>(LEASE_KEYS)])
    return {
      nodes: new Map(nodes.map(({ value }) => [value.node_id, value])),
      leases: new Map(leases.map(({ key, value }) => [workOf(key), value])),
    }
  }

  /** A process begins: one before it under the same id has lost all it had. */
  join(self: NodeDescription, { session, wants, now, timeoutMs }: Beat, ephemeral: boolean): Promise<NodeRecord> {
    return this.store.transaction(async (tx) => {
      const before = await tx.get<NodeRecord>(nodeKey(self.node_id))
      const record: NodeRecord = {
        ...self,
        generation: (before?.generation ?? 0) + 1,
        session,
        beat: 0,
        beat_at: now,
        timeout_ms: timeoutMs,
        wants,
        drained: false,
        ...(before?.draining && { draining: true }),
        ...(ephemeral && { ephemeral: true }),
      }
      tx.put(nodeKey(self.node_id), record)
      return record
    })
  }

  /** @returns undefined when the id is another process's now, or nobody's. */
  beat(id: number, { session, wants, now, timeoutMs, drained }: Beat): Promise<NodeRecord | undefined> {
    return this.store.transaction(async (tx) => {
      const before = await tx.get<NodeRecord>(nodeKey(id))
      if (before?.session !== session) return undefined
      const { stopped: _, ...rest } = before
      // Not of a decommission that is over: one that comes after it is to be seen anew.
      const record: NodeRecord = { ...rest, wants, drained: drained && before.draining === true, timeout_ms: timeoutMs, beat: before.beat + 1, beat_at: now }
      tx.put(nodeKey(id), record)
      return record
    })
  }

  /** Gives up all that the process has. */
  leave(id: number, session: string): Promise<void> {
    return this.store.transaction(async (tx) => {
      const before = await tx.get<NodeRecord>(nodeKey(id))
      if (before?.session !== session) return
      await this.free(tx, before)
      if (before.ephemeral) tx.delete(nodeKey(id))
      else tx.put(nodeKey(id), { ...before, wants: [], stopped: true } satisfies NodeRecord)
    })
  }

  /** @returns the new tokens of what was taken. */
  take(id: number, generation: number, works: readonly Takeable[]): Promise<Map<string, number>> {
    return this.store.transaction(async (tx) => {
      const taken = new Map<string, number>()
      if ((await tx.get<NodeRecord>(nodeKey(id)))?.generation !== generation) return taken
      for (const { work, seen, ownerBeat } of works) {
        const lease = await tx.get<LeaseRecord>(leaseKey(work))
        if (lease?.token !== seen?.token || lease?.owner !== seen?.owner || lease?.generation !== seen?.generation || lease?.to !== seen?.to) continue
        const mine = lease?.owner === id && lease.generation === generation
        if (!mine && lease?.owner !== undefined) {
          const owner = await tx.get<NodeRecord>(nodeKey(lease.owner))
          if (owner !== undefined && holds(lease, owner) && owner.beat !== ownerBeat) continue
        }
        const token = (lease?.token ?? 0) + 1
        const { slot } = lease ?? {}
        tx.put(leaseKey(work), { owner: id, generation, token, ...(slot && { slot }) } satisfies LeaseRecord)
        taken.set(work, token)
      }
      return taken
    })
  }

  /** Gives up a lease, if it is still the one with the token. */
  release(work: string, token: number): Promise<void> {
    return this.store.transaction(async (tx) => {
      const lease = await tx.get<LeaseRecord>(leaseKey(work))
      if (lease?.token === token) tx.put(leaseKey(work), freed(lease))
    })
  }

  /** Begins the next turn of the work: each number once. @returns its number; when it may begin, by the wall clock, instead; undefined where the token is not the newest. */
  beginSlot(work: string, token: number, everyMs: number, now: number): Promise<{ number: number } | { notBefore: number } | undefined> {
    return this.store.transaction(async (tx) => {
      const lease = await tx.get<LeaseRecord>(leaseKey(work))
      if (lease === undefined || lease.token !== token || lease.owner === undefined) return undefined
      const wait = lease.slot === undefined ? 0 : untilNext(lease.slot, everyMs, now)
      if (wait > 0) return { notBefore: now + wait }
      const number = (lease.slot?.number ?? 0) + 1
      tx.put(leaseKey(work), { ...lease, slot: { number, begun: now, done: false } } satisfies LeaseRecord)
      return { number }
    })
  }

  /** @returns whether the work was still under the token. */
  endSlot(work: string, token: number): Promise<boolean> {
    return this.store.transaction(async (tx) => {
      const lease = await tx.get<LeaseRecord>(leaseKey(work))
      if (lease?.token !== token || lease.owner === undefined || lease.slot === undefined) return false
      tx.put(leaseKey(work), { ...lease, slot: { ...lease.slot, done: true } } satisfies LeaseRecord)
      return true
    })
  }

  slot(work: string): Promise<Slot | undefined> {
    return this.store.get<LeaseRecord>(leaseKey(work)).then((lease) => lease?.slot)
  }

  /** Says who is to have what next: owners hand it over. @returns the works that were still with whom they were seen. */
  reserve(plan: readonly { work: string; from: number; to: number }[]): Promise<Set<string>> {
    return this.store.transaction(async (tx) => {
      const done = new Set<string>()
      for (const { work, from, to } of plan) {
        const lease = await tx.get<LeaseRecord>(leaseKey(work))
        if (lease === undefined || (lease.to ?? lease.owner) !== from || lease.owner === undefined) continue
        const { to: _, ...rest } = lease
        tx.put(leaseKey(work), (to === lease.owner ? rest : { ...rest, to }) satisfies LeaseRecord)
        done.add(work)
      }
      return done
    })
  }

  /** A node that is no process of this state, or one that was decommissioned and is to have work again. @throws CONFLICT for an id that lives elsewhere. */
  register(given: NodeDescription, now: number, timeoutMs: number, isAlive: (node: NodeRecord) => boolean): Promise<NodeRecord> {
    return this.store.transaction(async (tx) => {
      const before = await tx.get<NodeRecord>(nodeKey(given.node_id))
      if (before !== undefined && before.addr !== given.addr && isAlive(before))
        throw new SvcError(
          'CONFLICT',
          `cannot register node ${given.node_id} at "${given.addr}": it is alive at "${before.addr}"; choose another node_id, or decommission and deregister that one first`,
        )
      const { draining: _, ...rest } = before ?? { generation: 0, beat: 0, wants: [] as string[], timeout_ms: timeoutMs }
      // A process goes on under its generation; any other begins a new one.
      const process = before?.session !== undefined
      const described = process ? { node_id: given.node_id } : given
      const record = {
        ...rest,
        ...described,
        generation: rest.generation + (process ? 0 : 1),
        ...(!process && { beat: rest.beat + 1, beat_at: now }),
      } as NodeRecord
      tx.put(nodeKey(given.node_id), record)
      return record
    })
  }

  /** A beat of a node that is no process of this state; of one that is it says only whether the generation is the right one. */
  heartbeat(id: number, generation: number | undefined, now: number): Promise<void> {
    return this.store.transaction(async (tx) => {
      const before = await requireNode(tx, id, 'take a heartbeat of')
      if (generation !== undefined && generation !== before.generation)
        throw new SvcError(
          'CONFLICT',
          `cannot take a heartbeat of node ${id}: generation ${generation} is not its newest, ${before.generation}; register it again, and beat with the generation of the answer`,
        )
      if (before.session === undefined) tx.put(nodeKey(id), { ...before, beat: before.beat + 1, beat_at: now } satisfies NodeRecord)
    })
  }

  deregister(id: number, isAlive: (node: NodeRecord) => boolean): Promise<void> {
    return this.store.transaction(async (tx) => {
      const before = await requireNode(tx, id, 'deregister')
      if (before.session !== undefined && isAlive(before))
        throw new SvcError('CONFLICT', `cannot deregister node ${id}: its process runs; POST /api/v1/admin/nodes/${id}/decommission, then stop it`)
      await this.free(tx, before)
      tx.delete(nodeKey(id))
    })
  }

  /** @param check refuses it, given all nodes as they are then: two that are asked for at one time see each other. */
  decommission(id: number, check: (nodes: ReadonlyMap<number, NodeRecord>) => void): Promise<NodeRecord> {
    return this.store.transaction(async (tx) => {
      const nodes = await tx.list<NodeRecord>(NODE_KEYS)
      check(new Map(nodes.map(({ value }) => [value.node_id, value])))
      const before = await requireNode(tx, id, 'decommission')
      const record: NodeRecord = { ...before, draining: true, ...(!before.draining && before.drained && { drained: false }) }
      tx.put(nodeKey(id), record)
      return record
    })
  }

  private async free(tx: StateTransaction, { node_id }: NodeRecord): Promise<void> {
    for (const { key, value } of await tx.list<LeaseRecord>(LEASE_KEYS)) if (value.owner === node_id) tx.put(key, freed(value))
  }
}

/** The wait of work that takes turns: what was begun and not done is due at once. A begin that lies further ahead than a turn was noted by a wrong clock. */
export function untilNext({ begun, done }: Slot, everyMs: number, now: number): number {
  const wait = begun + everyMs - Math.min(everyMs / 10, 1000) - now
  return !done || wait > 2 * everyMs ? 0 : Math.max(0, wait)
}

function freed({ owner: _, ...rest }: LeaseRecord): LeaseRecord {
  return rest
}

async function requireNode(tx: StateReader, id: number, what: string): Promise<NodeRecord> {
  const record = await tx.get<NodeRecord>(nodeKey(id))
  if (record === undefined) throw new SvcError('NOT_FOUND', `cannot ${what} node ${id}: there is none of this node_id; GET /api/v1/admin/nodes lists them`)
  return record
}
