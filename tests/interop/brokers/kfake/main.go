// Brokers of franz-go's kfake: kfake PORT FOLDER. It says the address when it listens, and ends when its input does.
package main

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	cluster, err := kfake.NewCluster(
		kfake.Ports(port),
		kfake.NumBrokers(1),
		kfake.ClusterID("kfake-"+os.Args[1]),
		kfake.DataDir(os.Args[2]),
	)
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	fmt.Println(cluster.ListenAddrs()[0])
	_, _ = io.Copy(io.Discard, os.Stdin)
}
