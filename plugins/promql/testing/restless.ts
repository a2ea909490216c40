import { Pacer } from '../eval/context.ts'

/** Looks at the signal whenever it is asked, for work that is too short to take time. */
export class Restless extends Pacer {
  override due(): boolean {
    return true
  }
}
