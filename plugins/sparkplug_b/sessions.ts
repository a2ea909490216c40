/**
 * Sessions of edge nodes: what their births have said, in the order in which messages came (specification 3.0, 5).
 *
 * Invariants
 * - A message is given the definitions that held when it came: it may be read later, after the next birth has come, and more than once.
 * - Definitions are used as long as no birth can have been missed. After the source was away, the next message of an edge node has to have the number that
 *   follows; otherwise they are forgotten, and births are asked for. A value without a name is never stored under a guess. So it is after a birth that may
 *   have come before.
 * - What is known is bounded by metrics, devices and edge nodes, each of which counts one; those not heard of for longest are forgotten.
 */
import { RecentMap } from 'svcdb/lib/cache'
import { classify, SvcError } from 'svcdb/lib/errors'
import type { Work } from 'svcdb/lib/event-loop'
import { type Birth, BirthReader, type Definitions } from './definitions.ts'
import type { Head } from './payload.ts'
import { readTopic, type SparkplugTopic } from './topic.ts'

/** What a message is read with. */
export interface Session extends SparkplugTopic {
  /** Milliseconds since the Unix epoch. */
  time: number | undefined
  /** None where births were missed. */
  definitions: Definitions | undefined
  bdSeq: number | undefined
  /** Devices that die with the edge node. */
  devices: readonly string[]
  /** Of a session that is over. */
  stale: boolean
  fault: SvcError | undefined
}

interface SessionsOptions {
  maxMetrics: number
  /** Births of the edge node were missed. */
  missing(group: string, node: string): void
  /** The numbers of messages do not follow each other. */
  gap(): void
}

interface EdgeNode {
  bdSeq: number | undefined
  /** Number of the last message. */
  seq: number | undefined
  /** `interruptions` when the last message came. */
  heard: number
  own: Definitions | undefined
  readonly devices: Map<string, Definitions>
  weight: number
}

const SEQUENCE = 256

export class Sessions {
  private readonly options: SessionsOptions
  private readonly births: BirthReader
  private readonly nodes: RecentMap<string, EdgeNode>
  private interruptions = 0

  constructor(options: SessionsOptions) {
    this.options = options
    this.births = new BirthReader(options.maxMetrics)
    this.nodes = new RecentMap(options.maxMetrics, ({ weight }) => weight)
  }

  /** Metrics, devices and edge nodes that are known. */
  get size(): number {
    return this.nodes.taken
  }

  /** Births may be missed from here on. */
  interrupted(): void {
    this.interruptions++
  }

  /** In turns, one message after the other. @returns 'ignored' for a message that says nothing of points. Never throws. */
  *arrived(topic: string, body: Uint8Array, redelivered: boolean): Work<Session | 'ignored'> {
    const read = readTopic(topic)
    if (read === 'ignored') return read
    const session: Session = {
      ...(read ?? { type: 'NDATA', group: '', node: '', device: undefined }),
      time: undefined,
      definitions: undefined,
      bdSeq: undefined,
      devices: [],
      stale: false,
      fault: undefined,
    }
    if (read === undefined) {
      session.fault = new SvcError(
        'BAD_REQUEST',
        `cannot read a message of "${topic.slice(0, 256)}": it is no topic of Sparkplug B, spBv1.0/group/type/edge node/device`,
      )
      return session
    }
    try {
      yield* this.enter(session, body, redelivered)
    } catch (error) {
      session.fault = classify(error)
    }
    return session
  }

  private *enter(session: Session, body: Uint8Array, redelivered: boolean): Work<void> {
    const key = `${session.group}/${session.node}`
    const { type } = session
    // With an empty payload a message that the broker keeps is deleted (MQTT 3.1.1, 3.3.1.3): no birth, and no death.
    if (body.length === 0)
      throw new SvcError('BAD_REQUEST', 'cannot read a message of Sparkplug B: it is empty, as one by which a message that the broker keeps is deleted')
    const birth = type === 'NBIRTH' || type === 'DBIRTH' || type === 'NDEATH' ? yield* this.births.birth(body) : undefined
    const node = this.nodes.get(key)
    switch (type) {
      case 'NBIRTH':
        return this.nodeBirth(session, key, node, birth as Birth, redelivered)
      case 'DBIRTH':
        return this.deviceBirth(session, key, node, birth as Birth, redelivered)
      case 'NDEATH':
        return this.nodeDeath(session, key, node, birth as Birth)
      case 'DDEATH':
        return this.deviceDeath(session, key, node, this.births.head(body), redelivered)
      default:
        return this.data(session, key, node, this.births.head(body), redelivered)
    }
  }

  private nodeBirth(session: Session, key: string, known: EdgeNode | undefined, birth: Birth, redelivered: boolean): void {
    const { definitions, bdSeq, seq } = birth
    session.time = birth.time
    session.definitions = definitions
    session.bdSeq = bdSeq
    if (redelivered && isNoNewer(definitions, known?.own)) return
    this.keep(session, key, { bdSeq, seq, heard: this.heardBy(redelivered), own: definitions, devices: new Map(), weight: 1 + definitions.weight })
  }

  private deviceBirth(session: Session, key: string, known: EdgeNode | undefined, birth: Birth, redelivered: boolean): void {
    const { definitions, seq } = birth
    const device = session.device as string
    session.time = birth.time
    session.definitions = definitions
    // If it were the last one of a device of this session, it would be known or come next.
    if (redelivered && known !== undefined && (isNoNewer(definitions, known.devices.get(device)) || !isNext(known, seq))) {
      session.bdSeq = known.bdSeq
      return
    }
    const node = this.followed(session, key, known, birth, redelivered) ?? {
      bdSeq: undefined,
      seq,
      heard: this.heardBy(redelivered),
      own: undefined,
      devices: new Map<string, Definitions>(),
      weight: 1,
    }
    if (node !== known) this.options.missing(session.group, session.node)
    session.bdSeq = node.bdSeq
    const before = node.devices.get(device)
    this.nodes.delete(key)
    node.weight += 1 + definitions.weight - (before === undefined ? 0 : 1 + before.weight)
    node.devices.set(device, definitions)
    this.keep(session, key, node)
  }

  private nodeDeath(session: Session, key: string, node: EdgeNode | undefined, { bdSeq }: Birth): void {
    session.bdSeq = bdSeq
    // The time is that of the connection's begin: a will is written before there is anything to say.
    if (node === undefined) return
    // After an interruption it may be of a session whose birth was missed. If it is not, the next message of the edge node has its birth asked for.
    if (bdSeq !== undefined && node.bdSeq !== undefined && bdSeq !== node.bdSeq && node.heard === this.interruptions) session.stale = true
    else {
      session.devices = [...node.devices.keys()]
      this.nodes.delete(key)
    }
  }

  private deviceDeath(session: Session, key: string, known: EdgeNode | undefined, head: Head, redelivered: boolean): void {
    session.time = head.time
    const node = this.followed(session, key, known, head, redelivered)
    const device = session.device as string
    const before = node?.devices.get(device)
    if (node === undefined || before === undefined) return
    session.bdSeq = node.bdSeq
    this.nodes.delete(key)
    node.weight -= 1 + before.weight
    node.devices.delete(device)
    this.nodes.set(key, node)
  }

  private data(session: Session, key: string, known: EdgeNode | undefined, head: Head, redelivered: boolean): void {
    session.time = head.time
    const node = this.followed(session, key, known, head, redelivered)
    const definitions = session.device === undefined ? node?.own : node?.devices.get(session.device)
    // One that comes again may be of the time before the birth.
    const before = redelivered && (head.time === undefined || definitions?.time === undefined || head.time < definitions.time)
    session.definitions = before ? undefined : definitions
    // Also where each metric has its name: that the edge node is there is said by births only.
    if (session.definitions === undefined) this.options.missing(session.group, session.node)
  }

  /** The edge node, if nothing can have been missed that changes what its messages mean. */
  private followed(session: Session, key: string, node: EdgeNode | undefined, { seq }: Head, redelivered: boolean): EdgeNode | undefined {
    if (node === undefined) return undefined
    const { seq: last, heard } = node
    const ahead = last === undefined || seq === undefined ? undefined : (seq - last + SEQUENCE) % SEQUENCE
    // Of the messages before the last one, which the definitions that are known have held for.
    if (redelivered && (ahead === 0 || (ahead !== undefined && ahead > SEQUENCE / 2))) return node
    node.seq = seq ?? last
    node.heard = this.interruptions
    const whole = heard === this.interruptions
    if (ahead === 1 || (ahead === undefined && whole)) return node
    if (ahead !== undefined) this.options.gap()
    this.options.missing(session.group, session.node)
    if (whole) return node
    this.nodes.delete(key)
    return undefined
  }

  /** A birth that may be an old one, such as one that the broker has kept, has to be followed by the number that comes next. */
  private heardBy(redelivered: boolean): number {
    return redelivered ? this.interruptions - 1 : this.interruptions
  }

  private keep(session: Session, key: string, node: EdgeNode): void {
    this.nodes.set(key, node)
    if (this.nodes.get(key) !== undefined) return
    session.fault = new SvcError(
      'CARDINALITY_EXCEEDED',
      `cannot keep what the births of "${key.slice(0, 256)}" say of ${node.weight} metrics: sparkplug_b.max_metrics is ${this.options.maxMetrics}; raise it`,
    )
  }
}

/** Whether a birth that comes again says nothing beyond what is known. */
const isNoNewer = ({ time }: Definitions, known: Definitions | undefined): boolean => time !== undefined && known?.time !== undefined && time <= known.time

const isNext = ({ seq: last }: EdgeNode, seq: number | undefined): boolean => last !== undefined && seq === (last + 1) % SEQUENCE
