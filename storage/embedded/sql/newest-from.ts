/**
 * Queries for newest rows within a statement, as `SELECT ... FROM (SELECT host, arg_max(x, _time) FROM m GROUP BY host)`. Where the newest row of each series is known
 * (lane/newest.ts answers whole statements by it), none that lies before the oldest of these can be part of the answer: the scan begins there, and not with the history.
 */
import { type Node, walk } from './ast.ts'
import type { SqlHost } from './host.ts'
import { type NewestPlan, recogniseNewest } from './lane/newest.ts'
import type { Source } from './scope.ts'

export interface ScanFrom {
  measurement: string
  /** Nanoseconds, inclusive. */
  from: bigint
}

/** Each asks for all series of a measurement. */
const MOST = 8

/** @param tree with values in the places of its parameters. */
export async function newestScans(host: SqlHost, namespace: string, tree: Node): Promise<ReadonlyMap<Node, ScanFrom>> {
  const found = new Map<Node, ScanFrom>()
  if (host.newestFrom === undefined) return found
  const catalog = { measurement: (name: string) => host.measurement(namespace, name), now: () => host.now() }
  const plans: [Node, NewestPlan][] = []
  walk(tree, (node) => {
    if (node === tree || node.type !== 'SELECT_NODE' || plans.length === MOST) return
    const plan = recogniseNewest(node, catalog, false)
    if (plan !== undefined) plans.push([node, plan])
  })
  for (const [node, plan] of plans) {
    const from = await host.newestFrom(plan)
    if (from !== undefined) found.set(node, { measurement: plan.measurement, from })
  }
  return found
}

/** @param source what a query reads, where that is one thing: its name may be that of a common table expression, in place of the measurement's. */
export function beginAtNewest(source: Source | undefined, scan: ScanFrom | undefined): void {
  if (scan === undefined || source?.measurement?.name !== scan.measurement) return
  const [low, high] = source.time
  source.time = [scan.from > low ? scan.from : low, high]
}
