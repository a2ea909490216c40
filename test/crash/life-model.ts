/**
 * What deletes, drops and their undoing make of data, and what must therefore be there: one `Life` for each connection of the client
 * (deleter.ts). A connection touches points of its own only and has one request under way at a time, so that after a kill at most its last
 * one is in doubt; `settle` tells from the points which way it went.
 *
 * Points lie in blocks; a block is written as one body, a part of it is that of one host. Times of a block are always the same, the values
 * tell how often it was written anew: what comes back from before a delete is a wrong value.
 */
import { canonical, type ExpectedPoint } from './workload.ts'

/** Tables of three kinds: one of its own, one shared with other measurements, one whose series come and go with their points. */
const KINDS = ['life_own', 'life_shared', 'life_series'] as const
type Kind = (typeof KINDS)[number]
export const HOSTS = 3
const ALL = (1 << HOSTS) - 1
const POINTS_OF_HOST = 4
const BLOCKS = 240
const LOTS = 30
const POINTS_OF_LOT = 5
const NS_PER_BLOCK = 1_000_000n
/** A connection's points lie this far behind those of the one before it: within the window for points out of order. */
const NS_PER_CONNECTION = 600_000_000_000n
export const CONNECTIONS = 3

export type Operation =
  | { kind: 'write'; block: number; version: number }
  | { kind: 'delete'; measurement: Kind; from: number; to: number; host?: number }
  /** All that a series ever had, without a range: its number is given back. */
  | { kind: 'delete_series'; block: number }
  | { kind: 'add'; lot: number; generation: number }
  | { kind: 'trim'; lot: number }
  | { kind: 'drop'; final: boolean }
  | { kind: 'restore' }

export interface HttpCall {
  method: 'POST' | 'DELETE'
  path: string
  type?: string
  body?: string
  /** The answer when it is done. */
  status: number
}

interface Block {
  version: number
  /** A bit for each host that has its points. */
  hosts: number
}

interface Contents {
  generation: number
  lots: Set<number>
}

interface Pick {
  below(n: number): number
  chance(p: number): boolean
}

export class Life {
  /** The connection's own measurement, which is dropped and restored. */
  readonly dropped: string
  /** Begun and not answered. */
  unknown: Operation | undefined
  readonly done: Record<Operation['kind'], number> = { write: 0, delete: 0, delete_series: 0, add: 0, trim: 0, drop: 0, restore: 0 }
  private readonly base: bigint
  private readonly connection: number
  private blocks = new Map<number, Block>()
  private generation = 0
  private live: Contents | undefined
  /** Pending drops, the newest last. */
  private pending: Contents[] = []

  constructor(base: bigint, connection: number) {
    this.base = base + BigInt(connection) * NS_PER_CONNECTION
    this.connection = connection
    this.dropped = `drop_${connection}`
  }

  /** Reads one line of the ledger, without the connection's number. @throws Error for an answer that no operation may get. */
  read(line: string): void {
    const space = line.indexOf(' ')
    const word = space < 0 ? line : line.slice(0, space)
    if (word === 'begin') this.unknown = JSON.parse(line.slice(space + 1)) as Operation
    else if (word === 'bad' || this.unknown === undefined) throw new Error(`the server has refused what it should do: ${line}`)
    else {
      if (word === 'done') this.apply(this.unknown)
      this.unknown = undefined
    }
  }

  /** What to do next. @param final drops cannot be undone now. */
  choose(random: Pick, final: boolean): Operation {
    const dice = random.below(100)
    if (dice < 30) {
      const next = this.ofDropped(random, final)
      if (next !== undefined) return next
    }
    const block = random.below(BLOCKS)
    if (dice < 45) {
      const measurement = KINDS[random.below(KINDS.length)]
      const to = Math.min(BLOCKS, block + 1 + random.below(random.chance(0.2) ? BLOCKS : 12))
      return { kind: 'delete', measurement, from: block, to, ...(random.chance(0.5) ? { host: random.below(HOSTS) } : {}) }
    }
    if (dice < 52) return { kind: 'delete_series', block: block - (block % KINDS.length) + 2 }
    const known = this.blocks.get(block)
    if (known === undefined) return { kind: 'write', block, version: 1 }
    // What is left of a block is not written with other values: those of a time are merged field by field.
    return { kind: 'write', block, version: known.hosts === 0 ? known.version + 1 : known.version }
  }

  call(operation: Operation): HttpCall {
    switch (operation.kind) {
      case 'write':
        return this.write(kindOf(operation.block), this.blockPoints(operation.block, operation.version, ALL))
      case 'delete': {
        const { measurement, from, to, host } = operation
        const range = `"start":${this.time(from)},"end":${this.time(to) - 1n}`
        // Both spellings of a range.
        return remove(measurement, host === undefined ? [range] : [`"tags":{"host":"${this.host(host)}"}`, `"range":{${range}}`])
      }
      case 'delete_series':
        return remove('life_series', [`"tags":{"block":"${this.connection}-${operation.block}"}`])
      case 'add':
        return this.write(this.dropped, this.lotPoints(operation.lot, operation.generation))
      case 'trim':
        return remove(this.dropped, [`"start":${this.time(operation.lot)},"end":${this.time(operation.lot + 1) - 1n}`])
      case 'drop':
        return { method: 'DELETE', path: `/api/v1/measurements/${this.dropped}`, status: 204 }
      case 'restore':
        return { method: 'POST', path: `/api/v1/measurements/${this.dropped}/restore`, status: 204 }
    }
  }

  /** By measurement, all points that must be there, as texts in order. */
  expected(): Map<string, string[]> {
    const all = new Map<string, string[]>([...KINDS, this.dropped].map((name) => [name, []]))
    for (const [block, { version, hosts }] of this.blocks) all.get(kindOf(block))?.push(...this.blockPoints(block, version, hosts).map(text))
    if (this.live !== undefined) for (const lot of this.live.lots) all.get(this.dropped)?.push(...this.lotPoints(lot, this.live.generation).map(text))
    for (const list of all.values()) list.sort()
    return all
  }

  /** Whether a point of the measurements that connections share is this one's. */
  owns(time: bigint): boolean {
    return time >= this.base && time < this.base + NS_PER_CONNECTION
  }

  /**
   * Compares with what is there.
   * @returns how the operation in doubt went, for the ledger. @throws Error naming what is there and should not be, or the other way round.
   */
  settle(found: ReadonlyMap<string, string[]>): 'done' | 'undone' | undefined {
    const undone = difference(this.expected(), found)
    const { unknown } = this
    if (unknown === undefined) {
      if (undone !== undefined) throw new Error(`connection ${this.connection}: ${undone}`)
      return undefined
    }
    if (undone === undefined) return 'undone'
    const after = this.copy()
    after.apply(unknown)
    const done = difference(after.expected(), found)
    if (done === undefined) return 'done'
    throw new Error(`connection ${this.connection}: ${JSON.stringify(unknown)} is neither done nor undone: if it is not, ${undone}; if it is, ${done}`)
  }

  private copy(): Life {
    const copy = new Life(this.base - BigInt(this.connection) * NS_PER_CONNECTION, this.connection)
    copy.blocks = structuredClone(this.blocks)
    copy.live = structuredClone(this.live)
    copy.pending = structuredClone(this.pending)
    return copy
  }

  private apply(operation: Operation): void {
    this.done[operation.kind]++
    switch (operation.kind) {
      case 'write':
        this.blocks.set(operation.block, { version: operation.version, hosts: ALL })
        return
      case 'delete': {
        const { measurement, from, to, host } = operation
        for (const [number, block] of this.blocks)
          if (number >= from && number < to && kindOf(number) === measurement) block.hosts &= host === undefined ? 0 : ~(1 << host)
        return
      }
      case 'delete_series': {
        const block = this.blocks.get(operation.block)
        if (block !== undefined) block.hosts = 0
        return
      }
      case 'add':
        this.generation = Math.max(this.generation, operation.generation)
        this.live ??= { generation: operation.generation, lots: new Set() }
        this.live.lots.add(operation.lot)
        return
      case 'trim':
        this.live?.lots.delete(operation.lot)
        return
      case 'drop':
        if (!operation.final && this.live !== undefined) this.pending.push(this.live)
        this.live = undefined
        return
      case 'restore':
        this.live = this.pending.pop()
    }
  }

  /** Every state it offers has other points than the one before: or nobody could tell afterwards which it is. */
  private ofDropped(random: Pick, final: boolean): Operation | undefined {
    const { live, pending, generation } = this
    if (live === undefined) {
      if (pending.length > 0 && random.chance(0.6)) return { kind: 'restore' }
      return { kind: 'add', lot: random.below(LOTS), generation: generation + 1 }
    }
    if (random.chance(0.25)) return { kind: 'drop', final }
    const lots = [...live.lots]
    if (lots.length > 1 && random.chance(0.2)) return { kind: 'trim', lot: lots[random.below(lots.length)] }
    const lot = random.below(LOTS)
    return live.lots.has(lot) ? undefined : { kind: 'add', lot, generation: live.generation }
  }

  private time(block: number): bigint {
    return this.base + BigInt(block) * NS_PER_BLOCK
  }

  private host(host: number): string {
    // Of the connection alone: a delete by tag has no business with another's points.
    return `h${this.connection}${host}`
  }

  private blockPoints(block: number, version: number, hosts: number): ExpectedPoint[] {
    const kind = kindOf(block)
    const points: ExpectedPoint[] = []
    for (let place = 0; place < HOSTS * POINTS_OF_HOST; place++) {
      const host = place % HOSTS
      if ((hosts & (1 << host)) === 0) continue
      const fields: Record<string, unknown> = { v: version + (place + 0.5) / 16 }
      if (kind !== 'life_shared') fields.i = 2n ** 60n + BigInt(block * 1000 + version)
      // Every other version leaves a field out: it must not come from a point that was deleted.
      if (kind !== 'life_shared' && version % 2 === 1) fields.t = `block ${block} version ${version}`
      const tags: Record<string, string> = { host: this.host(host), ...(kind === 'life_series' ? { block: `${this.connection}-${block}` } : {}) }
      points.push({ time: this.time(block) + BigInt(place), tags, fields: canonical(fields) })
    }
    return points
  }

  /** The first connection's has two fields and so a table of its own, those of the others share theirs with `life_shared`. */
  private lotPoints(lot: number, generation: number): ExpectedPoint[] {
    return Array.from({ length: POINTS_OF_LOT }, (_, place) => {
      const fields: Record<string, unknown> = { v: generation * 1000 + lot + (place + 0.5) / 8, ...(this.connection === 0 ? { g: BigInt(generation) } : {}) }
      return { time: this.time(lot) + BigInt(place), tags: { host: this.host(place % HOSTS) }, fields: canonical(fields) }
    })
  }

  private write(measurement: string, points: ExpectedPoint[]): HttpCall {
    const lines = this.connection % 2 === 0
    if (!lines && measurement === 'life_shared') {
      const body = points.map(
        ({ time, tags, fields }) => `{"measurement":"${measurement}","tags":${JSON.stringify(tags)},"fields":{"v":${fields.slice(2)}},"timestamp":${time}}`,
      )
      return { method: 'POST', path: '/api/v1/write', type: 'application/json', body: `[${body.join(',')}]`, status: 204 }
    }
    const body = points.map(({ time, tags, fields }) => {
      const key = Object.entries(tags).map(([name, value]) => `,${name}=${value}`)
      const values = fields.replace(/(^| )([ig])=(\d+)/g, '$1$2=$3i').replace(/ (?=[givt]=)/g, ',')
      return `${measurement}${key.join('')} ${values} ${time}`
    })
    return { method: 'POST', path: '/api/v2/write?precision=ns', type: 'text/plain; charset=utf-8', body: body.join('\n'), status: 204 }
  }
}

/** Measurements that all connections use. */
export const SHARED_BY_ALL: readonly string[] = KINDS

/** A point as `expected` has it. */
export function text({ time, tags, fields }: ExpectedPoint): string {
  return `${time} ${canonical(tags)} ${fields}`
}

const kindOf = (block: number): Kind => KINDS[block % KINDS.length]

function remove(measurement: string, members: string[]): HttpCall {
  const body = `{"measurement":"${measurement}",${members.join(',')}}`
  return { method: 'POST', path: '/api/v1/delete', type: 'application/json', body, status: 200 }
}

function difference(expected: ReadonlyMap<string, string[]>, found: ReadonlyMap<string, string[]>): string | undefined {
  for (const [measurement, points] of expected) {
    const there = found.get(measurement) ?? []
    const [wanted, have] = [new Set(points), new Set(there)]
    const missing = points.filter((point) => !have.has(point))
    const extra = there.filter((point) => !wanted.has(point))
    if (missing.length + extra.length === 0 && there.length === points.length) continue
    const some = (list: string[]) => `${list.length}${list.length === 0 ? '' : ` (${list.slice(0, 3).join('; ')})`}`
    return `${measurement} has ${there.length} of ${points.length} points, missing ${some(missing)}, too many ${some(extra)}`
  }
  return undefined
}
