/** Which node is to be sent what. Pure: regions and the nodes that are there in, a table out. */

export const STATES = ['active', 'migrating', 'readonly', 'replicating', 'splitting'] as const
export type RegionState = (typeof STATES)[number]

/** A measurement, or all of a namespace (`*`), and the nodes that are to take its writes. */
export interface Region {
  region_id: number
  /** Empty where namespaces are not kept apart. */
  namespace: string
  measurement: string
  leader_node_id: number
  replica_node_ids: number[]
  replication_factor: number
  state: RegionState
}

export interface Member {
  node_id: number
  addr: string
  /** May be sent work and calls. */
  active: boolean
}

export interface Route {
  region_id: number
  measurement: string
  leader_node_id: number
  /** Empty when the node is not known any more. */
  leader_addr: string
  replicas: { node_id: number; addr: string }[]
}

export interface LeaderMove {
  region_id: number
  from: number
  to: number
}

export function routesOf(regions: readonly Region[], members: readonly Member[]): Record<string, Route[]> {
  const addr = new Map(members.map((member) => [member.node_id, member.addr]))
  const routes: Record<string, Route[]> = {}
  for (const { region_id, namespace, measurement, leader_node_id, replica_node_ids } of regions.toSorted((a, b) => a.region_id - b.region_id)) {
    const key = namespace === '' ? measurement : `${namespace}/${measurement}`
    const replicas = replica_node_ids.map((node_id) => ({ node_id, addr: addr.get(node_id) ?? '' }))
    const route = { region_id, measurement, leader_node_id, leader_addr: addr.get(leader_node_id) ?? '', replicas }
    // Object.hasOwn: a measurement may be called "constructor".
    if (!Object.hasOwn(routes, key)) Object.defineProperty(routes, key, { value: [], enumerable: true, configurable: true, writable: true })
    routes[key].push(route)
  }
  return routes
}

/** Regions whose leader is gone while a replica is there: that becomes the leader, the one with the fewest regions first. */
export function failovers(regions: readonly Region[], members: readonly Member[]): LeaderMove[] {
  const { active, led } = standing(regions, members)
  const found: LeaderMove[] = []
  for (const { region_id, leader_node_id: from, replica_node_ids } of regions.toSorted((a, b) => a.region_id - b.region_id)) {
    if (active.has(from)) continue
    const to = least(
      replica_node_ids.filter((id) => active.has(id)),
      led,
    )
    if (to === undefined) continue
    led.set(to, (led.get(to) ?? 0) + 1)
    found.push({ region_id, from, to })
  }
  return found
}

/** Leaders that are to change so that no node leads two regions more than another that could; regions on the move are left alone. */
export function evenLeaders(regions: readonly Region[], members: readonly Member[]): LeaderMove[] {
  const { active, led } = standing(regions, members)
  const leader = new Map(regions.map(({ region_id, leader_node_id }) => [region_id, leader_node_id]))
  const movable = regions.filter(({ state }) => state === 'active' || state === 'readonly').toSorted((a, b) => a.region_id - b.region_id)
  for (let moved = true; moved; ) {
    moved = false
    for (const { region_id, leader_node_id, replica_node_ids } of movable) {
      const from = leader.get(region_id) as number
      const to = least(
        [leader_node_id, ...replica_node_ids].filter((id) => active.has(id) && id !== from),
        led,
      )
      if (to === undefined || (led.get(from) ?? 0) - (led.get(to) ?? 0) < 2) continue
      led.set(from, (led.get(from) ?? 0) - 1)
      led.set(to, (led.get(to) ?? 0) + 1)
      leader.set(region_id, to)
      moved = true
    }
  }
  return regions.flatMap(({ region_id, leader_node_id: from }) => {
    const to = leader.get(region_id) as number
    return to === from ? [] : [{ region_id, from, to }]
  })
}

/** The region with another leader, who was one of its replicas: the one before is a replica now. */
export function ledBy(region: Region, to: number): Region {
  const { leader_node_id: from, replica_node_ids } = region
  return { ...region, leader_node_id: to, replica_node_ids: replica_node_ids.map((id) => (id === to ? from : id)) }
}

function standing(regions: readonly Region[], members: readonly Member[]): { active: Set<number>; led: Map<number, number> } {
  const active = new Set(members.filter((member) => member.active).map(({ node_id }) => node_id))
  const led = new Map<number, number>()
  for (const { leader_node_id: id } of regions) led.set(id, (led.get(id) ?? 0) + 1)
  return { active, led }
}

function least(ids: readonly number[], led: ReadonlyMap<number, number>): number | undefined {
  return ids.toSorted((a, b) => (led.get(a) ?? 0) - (led.get(b) ?? 0) || a - b)[0]
}
