/**
 * Tenants of one node who come by all protocols at once. Each has words and numbers of its own, which nobody else may ever see: `leaksOf` finds them. What each
 * has written with success is remembered, so that it can be compared in the end.
 */

import type { MqttClient } from 'mqtt'
import { definePlugin, tokenOf } from 'svcdb'
import type { Random } from 'svcdb/lib/random'
import type { TestNode } from 'svcdb/testkit'
import type { EventClient } from '../../../plugins/cdc/testing.ts'
import type { FlightClient } from '../../../plugins/flight_sql/testing.ts'
import type { Subscription, TestClient } from '../../../plugins/grpc/testing.ts'
import type { FakeKafka } from '../../../plugins/kafka/testing.ts'
import type { TestBroker } from '../../../plugins/mqtt/testing.ts'

/** The measurement that all have, and from which nobody deletes. */
export const LEDGER = 'ledger'

export class Tenant {
  readonly mark: string
  readonly namespace: string
  /** All numbers of its begin so. */
  readonly base: number
  readonly user: Record<string, string>
  /** An admin of its namespace. */
  readonly admin: Record<string, string>
  /** Of the operator API. */
  readonly operator: string
  /** Words of others that it has guessed: what it named is in its answers. */
  readonly said = new Set<string>()
  /** What it has written to the ledger: stored now or soon, and what says that it is another's, which may be refused. */
  readonly written = new Set<number>()
  readonly doubtful = new Set<number>()
  /** Ids of events that it has sent to the agent plane. */
  readonly events = new Set<string>()
  readonly streams: EventClient[] = []
  readonly subscriptions: Subscription[] = []
  private next = 0

  constructor(mark: string, base: number) {
    this.mark = mark
    this.base = base
    this.namespace = `${mark}-corp`
    this.user = { authorization: `Bearer user-${mark}` }
    this.admin = { authorization: `Bearer admin-${mark}` }
    this.operator = `operator-${mark}`.padEnd(40, mark)
  }

  number(): number {
    return this.next++
  }

  /** Names that others may guess. */
  get guessable(): readonly string[] {
    return [this.namespace, `${this.mark}_m1`, `keep_${this.mark}`]
  }
}

export const TENANTS: readonly Tenant[] = [new Tenant('zqumbra', 7_123_456), new Tenant('wxglobo', 8_234_567), new Tenant('kjinite', 9_345_678)]

/** Numbers of a tenant. */
export const numberOf = ({ base }: Tenant, n: number): number => base + (n % 8) / 16

/** @returns what of others is in some bytes that the tenant has got. */
export function leaksOf(tenant: Tenant, answer: string | Uint8Array): string[] {
  const bytes = typeof answer === 'string' ? Buffer.from(answer) : Buffer.from(answer.buffer, answer.byteOffset, answer.byteLength)
  let text = bytes.toString('latin1').toLowerCase()
  for (const word of [...tenant.said].sort((a, b) => b.length - a.length)) text = text.replaceAll(word, '')
  const found: string[] = []
  for (const other of TENANTS) {
    if (other === tenant) continue
    const at = text.indexOf(other.mark)
    if (at >= 0) found.push(`a word of ${other.mark}: ...${text.slice(Math.max(0, at - 80), at + 80)}...`)
    if (new RegExp(`(?<![0-9a-z])${other.base}(?![0-9])`).test(text)) found.push(`a number of ${other.mark}`)
    for (let n = 0; n < 8; n++) {
      const double = Buffer.alloc(8)
      double.writeDoubleLE(numberOf(other, n))
      if (bytes.includes(double) || bytes.includes(double.reverse())) found.push(`a number of ${other.mark}, in binary`)
    }
  }
  return [...new Set(found)]
}

/** A key for each tenant, one for its admin, and one for the node's. All call themselves the same: a name is no proof. */
export const keys = definePlugin({
  id: 'tenant_keys',
  summary: 'Knows keys of tenants',
  stability: 'experimental',
  setup(svc) {
    svc.auth.authenticator((credentials) => {
      const token = tokenOf(credentials)
      const of = (namespaces: readonly string[], admin: boolean) => ({ principal: 'client', method: 'key', claims: {}, namespaces, admin })
      if (token === 'root') return of([], true)
      for (const { mark, namespace } of TENANTS) {
        if (token === `user-${mark}`) return of([namespace], false)
        if (token === `admin-${mark}`) return of([namespace], true)
      }
      return undefined
    }, 1)
  },
})

export interface World {
  node: TestNode
  grpc: TestClient
  flight: FlightClient
  broker: TestBroker
  publisher: MqttClient
  kafka: ReadonlyMap<Tenant, FakeKafka>
  random: Random
  /** What tenants were handed, and others try: places in streams, tickets, handles of statements, ids. */
  places: string[]
  positions: string[]
  tickets: Uint8Array[]
  handles: { owner: Tenant; handle: Uint8Array }[]
  ids: string[]
  leak(tenant: Tenant, what: string, found: string[]): void
  /** Something of its own was answered: without that nothing is proven. */
  got(what: string): void
}

export const pick = <T>(random: Random, of: readonly T[]): T => of[Math.floor(random() * of.length)]

/** A name of another tenant, which is in the answers from now on. */
export function guess(random: Random, tenant: Tenant): string {
  const word = pick(random, pick(random, TENANTS).guessable)
  if (!tenant.guessable.includes(word)) tenant.said.add(word)
  return word
}

export function other(random: Random, tenant: Tenant): Tenant {
  const found = pick(
    random,
    TENANTS.filter((each) => each !== tenant),
  )
  tenant.said.add(found.namespace)
  return found
}
