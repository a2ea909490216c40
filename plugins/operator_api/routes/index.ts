/** All operations. An area is a file of its own, and a line here. */
import type { Operation } from '../operation.ts'
import { cases } from './cases.ts'
import { drill } from './drill.ts'
import { events } from './events.ts'
import { holds } from './holds.ts'
import { obligations } from './obligations.ts'
import { runs } from './runs.ts'
import { tasks } from './tasks.ts'

export const OPERATIONS: readonly Operation[] = [...runs, ...events, ...cases, ...obligations, ...holds, ...drill, ...tasks]
