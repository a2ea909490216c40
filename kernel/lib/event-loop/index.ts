/** Long work in turns of the event loop, so that other requests are answered meanwhile. */
export { OwnerQueue } from './owner-queue.ts'
export { atOnce, inTurns, nextTurn, OneByOne, ownedBy, owner, Turn, turnToBegin, type Work } from './turns.ts'
export { loopUtilization } from './utilization.ts'
