/** All operations. An area is a file of its own, and a line here. */
import type { Operation } from '../operation.ts'
import { attention } from './attention.ts'
import { cases } from './cases.ts'
import { drill } from './drill.ts'
import { events } from './events.ts'
import { halts } from './halts.ts'
import { holds } from './holds.ts'
import { live } from './live.ts'
import { obligations } from './obligations.ts'
import { push } from './push.ts'
import { runs } from './runs.ts'
import { tasks } from './tasks.ts'

export const OPERATIONS: readonly Operation[] = [
  ...attention,
  ...runs,
  ...live,
  ...tasks,
  ...cases,
  ...obligations,
  ...holds,
  ...halts,
  ...events,
  ...push,
  ...drill,
]
