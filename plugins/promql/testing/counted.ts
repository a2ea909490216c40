/** Expressions that count how often they are looked at. */
import type { Expr } from '../ast.ts'

export class Looks {
  count = 0

  /** The same expression; what is within it is not counted. */
  at(expr: Expr): Expr {
    return new Proxy(expr, {
      get: (target, name) => {
        if (name === 'kind') this.count++
        return Reflect.get(target, name)
      },
    })
  }
}
