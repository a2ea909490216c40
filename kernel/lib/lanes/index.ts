/** Who is sent to next, among receivers of several groups, so that those that fail or take long hold up no others. */
export { type Candidate, type LaneLimits, Lanes, type Slot } from './lanes.ts'
