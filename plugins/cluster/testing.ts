/** For tests: nodes that share their state, on a clock that is moved by hand. */
import { type Claim, definePlugin, type ScheduledRun, type Svc } from 'svcdb'
import { boot, ManualClock, SharedState, type TestNode } from 'svcdb/testkit'
import type { Test } from 'tap'

export const BEAT = 5000

export async function call(node: TestNode, method: string, path: string, payload?: object) {
  const answer = await node.inject({ method: method as 'GET', url: path, ...(payload && { payload }) })
  return { status: answer.statusCode, headers: answer.headers, body: answer.body === '' ? undefined : answer.json() }
}

export interface Peer {
  id: number
  node: TestNode
  reached: boolean
  claims: Map<string, Claim>
  runs: ScheduledRun[]
  /** What its work that each node does waits for before it ends. */
  settled?: Promise<void>
}

export const WORKS = ['a', 'b', 'c', 'd', 'e', 'f']

/** Nodes 1, 2 and so on, that could all do the same work. Each node's work notes the claim that it has, and ends with it. */
export async function peers(
  t: Test,
  count: number,
  clock = new ManualClock(),
): Promise<{ all: Peer[]; clock: ManualClock; shared: SharedState; add(id: number): Promise<Peer> }> {
  const shared = new SharedState()
  const all: Peer[] = []
  const add = async (id: number): Promise<Peer> => {
    const peer: Peer = { id, node: undefined as never, reached: true, claims: new Map(), runs: [] }
    const worker = definePlugin({
      id: 'worker',
      summary: 'Works',
      stability: 'beta',
      capabilities: ['state'],
      setup(svc: Svc) {
        for (const name of WORKS)
          svc.own(name, async (claim) => {
            peer.claims.set(name, claim)
            await new Promise((resolve) => claim.signal.addEventListener('abort', resolve, { once: true }))
            if (peer.claims.get(name) === claim) peer.claims.delete(name)
          })
        const member = async ({ signal }: Claim) => {
          await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
          await peer.settled
        }
        svc.own('member', member, { everywhere: true })
        svc.schedule('tick', 60_000, (run) => void peer.runs.push(run), { jitter: 0 })
      },
    })
    const storage = await shared.engine(() => peer.reached)
    peer.node = await boot({ plugins: ['cluster', 'line_protocol', worker], clock, storage, config: { cluster: { node_id: id, addr: `n${id}:8086` } } })
    t.teardown(() => peer.node.stop())
    all.push(peer)
    return peer
  }
  for (let id = 1; id <= count; id++) await add(id)
  return { all, clock, shared, add }
}

export const ownersOf = (all: readonly Peer[], name: string): Peer[] => all.filter(({ claims }) => claims.has(name))
