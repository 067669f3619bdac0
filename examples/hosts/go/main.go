// Runs a model on an image of ones and prints its scores.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: host MODEL.so")
		os.Exit(2)
	}
	if err := classify(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func classify(path string) error {
	model, err := Open(path)
	if err != nil {
		return err
	}
	defer model.Close()
	image := make([]float32, 3*8*8)
	for i := range image {
		image[i] = 1
	}
	scores, shape, err := model.Run(image, []int64{1, 3, 8, 8})
	if err != nil {
		return err
	}
	for _, score := range scores[:shape[1]] {
		fmt.Printf("%.6f\n", score)
	}
	return nil
}
