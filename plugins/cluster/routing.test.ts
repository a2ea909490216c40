import t from 'tap'
import { evenLeaders, failovers, ledBy, type Member, type Region, routesOf } from './routing.ts'

const region = (region_id: number, leader_node_id: number, replica_node_ids: number[] = [], more: Partial<Region> = {}): Region => ({
  ...{ region_id, namespace: '', measurement: 'cpu', leader_node_id, replica_node_ids, replication_factor: 1, state: 'active' },
  ...more,
})
const members = (...active: number[]): Member[] => [1, 2, 3].map((node_id) => ({ node_id, addr: `n${node_id}:1`, active: active.includes(node_id) }))

t.test('routes by measurement, of namespaces that are kept apart with their names', (t) => {
  const routes = routesOf([region(2, 1), region(1, 9, [2]), region(3, 2, [], { namespace: 'red', measurement: '__proto__' })], members(1, 2, 3))
  t.same(Object.keys(routes).sort(), ['cpu', 'red/__proto__'])
  t.same(
    routes.cpu.map(({ region_id, leader_addr }) => [region_id, leader_addr]),
    [
      [1, ''],
      [2, 'n1:1'],
    ],
  )
  t.same(routes.cpu[0].replicas, [{ node_id: 2, addr: 'n2:1' }])
  t.equal(Object.values(routesOf([region(1, 1, [], { measurement: '__proto__' })], []))[0].length, 1, 'a measurement may have any name')
  t.end()
})

t.test('a replica that is there follows a leader that is gone, the one that leads least', (t) => {
  const regions = [region(1, 1, [2, 3]), region(2, 1, [2, 3]), region(3, 2), region(4, 1)]
  t.same(failovers(regions, members(2, 3)), [
    { region_id: 1, from: 1, to: 3 },
    { region_id: 2, from: 1, to: 2 },
  ])
  t.same(failovers(regions, members(1, 2, 3)), [])
  t.same(ledBy(regions[0], 3), region(1, 3, [2, 1]))
  t.end()
})

t.test('leaders are evened out among those that have the region; what is on the move is let alone', (t) => {
  const regions = [1, 2, 3, 4].map((id) => region(id, 1, [2, 3])).concat(region(5, 1, [2], { state: 'migrating' }))
  const moves = evenLeaders(regions, members(1, 2, 3))
  t.equal(moves.length, 3)
  const led = (id: number) =>
    regions.filter(({ region_id, leader_node_id }) => (moves.find((move) => move.region_id === region_id)?.to ?? leader_node_id) === id).length
  t.same([led(1), led(2) + led(3)], [2, 3])
  t.notOk(moves.some(({ region_id }) => region_id === 5))
  t.end()
})
