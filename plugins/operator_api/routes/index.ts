/** All operations. An area is a file of its own, and a line here. */
import type { Operation } from '../operation.ts'
import { runs } from './runs.ts'

export const OPERATIONS: readonly Operation[] = [...runs]
