package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"time"

	"github.com/weirgpu/weir/train"
	"github.com/weirgpu/weir/train/recipe"
)

// killed follows a recipe in processes that are killed by signal 9 at a random time after their
// first update, each of which goes on from the checkpoint of the one before, on one thread and on
// two in turn.
func (b *bench) killed(path string) (row, error) {
	self, err := os.Executable()
	if err != nil {
		return row{}, err
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for n := int64(0); n < b.kills; n++ {
		ended, err := b.victim(self, path, time.Duration(rng.IntN(40))*time.Millisecond)
		if err != nil {
			return row{}, err
		}
		if ended {
			return row{}, fmt.Errorf("the training ended after %d of %d kills: give it more epochs",
				n, b.kills)
		}
	}
	r, err := recipe.Load(path)
	if err != nil {
		return row{}, err
	}
	res, err := run(r, 2, nil)
	if err != nil {
		return row{}, err
	}
	return row{What: "killed by signal 9, resumed", Times: b.kills, Updates: res.Steps,
		Digest: res.Digest}, nil
}

// victim has a process follow the recipe, and kills it a while after its first update. It reports
// whether the process came to its end before.
func (b *bench) victim(self, path string, after time.Duration) (ended bool, err error) {
	c := exec.Command(self, "-victim", path)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := c.Start(); err != nil {
		return false, err
	}
	_, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return false, fmt.Errorf("no update: %w, %w", err, c.Wait())
	}
	time.Sleep(after)
	if err := c.Process.Kill(); err != nil {
		return false, err
	}
	return c.Wait() == nil, nil
}

// follow follows a recipe from its newest checkpoint, and says when it has made an update.
func follow(path string) error {
	r, err := recipe.Load(path)
	if err != nil {
		return err
	}
	said := false
	_, err = run(r, 1+os.Getpid()%2, func(train.Event) {
		if !said {
			said = true
			fmt.Println("going")
		}
	})
	return err
}
