package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"assay"
)

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func trained(t *testing.T, c *assay.Context, path string, steps int64) *assay.Model {
	t.Helper()
	model, err := train(context.Background(), c, path, steps)
	ok(t, err)
	t.Cleanup(func() { model.Close() })
	return model
}

func TestTrainStopResumeServe(t *testing.T) {
	c, err := assay.NewContext(assay.ContextOptions{Threads: 1})
	ok(t, err)
	defer c.Close()
	whole, parts := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "parts")
	trained(t, c, whole, 40)

	stopped, stop := context.WithCancel(context.Background())
	stop()
	model, err := train(stopped, c, parts, 40)
	ok(t, err)
	model.Close()
	trained(t, c, parts, 15)
	model = trained(t, c, parts, 40)
	var diff struct{ Identical bool }
	report, err := assay.DiffCheckpoints(whole, parts)
	ok(t, err)
	ok(t, json.Unmarshal(report, &diff))
	if !diff.Identical {
		t.Fatal(string(report))
	}

	predictor, err := assay.NewPredictor(model, nil)
	ok(t, err)
	defer predictor.Close()
	server := httptest.NewServer(serve(c, predictor))
	defer server.Close()
	pixels, labels := makeBatch(1000)
	ask := func(body any) (int, []float32, error) {
		text, _ := json.Marshal(body)
		response, err := http.Post(server.URL+"/quarter", "application/json", bytes.NewReader(text))
		if err != nil {
			return 0, nil, err
		}
		defer response.Body.Close()
		var probabilities []float32
		if response.StatusCode == http.StatusOK {
			err = json.NewDecoder(response.Body).Decode(&probabilities)
		}
		return response.StatusCode, probabilities, err
	}
	var all sync.WaitGroup
	right := make([]bool, batch)
	for n := range right {
		all.Add(1)
		go func(n int) {
			defer all.Done()
			for i := 0; i < 4; i++ {
				status, probabilities, err := ask(pixels[n*side*side : (n+1)*side*side])
				if err != nil || status != http.StatusOK || len(probabilities) != classes {
					t.Error(status, probabilities, err)
					return
				}
				right[n] = probabilities[labels[n]] > 0.5
			}
		}(n)
	}
	all.Wait()
	count := 0
	for _, r := range right {
		if r {
			count++
		}
	}
	if count < batch*9/10 {
		t.Fatalf("%d of %d right", count, batch)
	}
	if status, _, err := ask([]float32{1}); err != nil || status != http.StatusBadRequest {
		t.Fatal(status, err)
	}
}

func TestServingEnds(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	began, ended := make(chan struct{}), make(chan error, 1)
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(began)
		time.Sleep(50 * time.Millisecond)
		fmt.Fprint(w, "answered")
	})
	go func() { ended <- listen(ctx, listener, slow) }()
	go func() {
		<-began
		stop()
	}()
	response, err := http.Get("http://" + listener.Addr().String())
	ok(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if ok(t, err); string(body) != "answered" {
		t.Fatal(string(body))
	}
	ok(t, <-ended)
	if listen(context.Background(), listener, slow) == nil {
		t.Fatal("the listener was closed")
	}
}

func TestAnInterruptEndsTheProgram(t *testing.T) {
	const variable = "ASSAY_TEST_SERVE"
	if path := os.Getenv(variable); path != "" {
		ok(t, run([]string{path, "1", "127.0.0.1:0"}))
		return
	}
	path := filepath.Join(t.TempDir(), "a")
	limited, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	command := exec.CommandContext(limited, os.Args[0], "-test.run", t.Name())
	command.Env = append(os.Environ(), variable+"="+path)
	ok(t, command.Start())
	for limited.Err() == nil { // once there is a checkpoint, interrupts are not Go's any more
		if _, err := os.Stat(path); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(200 * time.Millisecond) // it serves
	ok(t, command.Process.Signal(os.Interrupt))
	ok(t, command.Wait())
}

func TestUsage(t *testing.T) {
	for _, arguments := range [][]string{{}, {"a", "b"}} {
		if run(arguments) == nil {
			t.Fatal(arguments)
		}
	}
	path := filepath.Join(t.TempDir(), "a")
	ok(t, run([]string{path, "1"}))
	if err := run([]string{filepath.Join(path, "b"), "1"}); err == nil || errors.Is(err, assay.ErrInternal) {
		t.Fatal(err)
	}
}
