/**
 * How long one request holds the event loop: sends a real server each attack body and prints the longest turn, by the clock and in the main thread's processor time.
 *
 *   node test/security/loop-delay.ts [only=part of a name] [scale=1]
 */
import { attackBodies } from './loop-bodies.ts'
import { watchedNode } from './loop-node.ts'

const argument = (name: string): string | undefined => process.argv.find((text) => text.startsWith(`${name}=`))?.slice(name.length + 1)
const only = argument('only') ?? ''
const scale = Number(argument('scale') ?? 1)
const BOUND_MS = 50

const bodies = attackBodies(scale).filter(({ name }) => name.includes(only))
const node = await watchedNode()
let over = 0
console.log('longest turn: clock ms | processor ms | status | answered after ms | body')
for (const body of bodies) {
  const { clockMs, processorMs, status, ms } = await node.send(body)
  const late = processorMs > BOUND_MS
  if (late) over++
  const cells = [clockMs, processorMs].map((value) => value.toFixed(0).padStart(6))
  console.log(`${cells.join(' | ')} | ${String(status).padStart(6)} | ${ms.toFixed(0).padStart(6)} | ${body.name}${late ? '  <-- over' : ''}`)
}
console.log(`${over} of ${bodies.length} over ${BOUND_MS} ms`)
await node.stop()
