// Package recipe reads what a person writes about a training run: the model, its data, the loss,
// the optimizer and when to stop.
//
// Meet first: [Load] reads a file and gives a [Recipe]; [Parse] reads text.
//
// Concurrency: nothing here has state.
//
// What it refuses: unknown keys, values of a wrong type and values that mean nothing, all together
// and with their lines as far as they have any ([ErrRecipe]).
package recipe
